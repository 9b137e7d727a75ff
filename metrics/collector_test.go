package metrics_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/gormflake/gormflake/generator"
	"github.com/gormflake/gormflake/generator/lease"
	"github.com/gormflake/gormflake/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collect opens a generator, takes a thousand ids and returns its collector.
func collect(t *testing.T, store lease.Store) *metrics.Collector {
	t.Helper()
	g, err := generator.Open(t.Context(), generator.Config{Store: store, Namespace: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	if err := g.Fill(t.Context(), make([]generator.ID, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := g.Fill(t.Context(), make([]generator.ID, 1<<24)); err == nil {
		t.Fatal("a burst of 16 M ids must be refused")
	}
	return metrics.NewCollector(func() *generator.Generator { return g }, metrics.Options{})
}

func TestNamesKeepPrometheusConventions(t *testing.T) {
	problems, err := testutil.CollectAndLint(collect(t, lease.Memory()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestValues(t *testing.T) {
	err := testutil.CollectAndCompare(collect(t, lease.Memory()), strings.NewReader(`
# HELP gormflake_up 1 while ids can be had, else 0.
# TYPE gormflake_up gauge
gormflake_up{namespace="orders"} 1
# HELP gormflake_lease_term Fencing number of the lease; 0 without a lease.
# TYPE gormflake_lease_term gauge
gormflake_lease_term{namespace="orders"} 1
# HELP gormflake_refusals_total Calls that returned an error, by reason.
# TYPE gormflake_refusals_total counter
gormflake_refusals_total{namespace="orders",reason="burst_too_large"} 1
gormflake_refusals_total{namespace="orders",reason="clock_behind"} 0
gormflake_refusals_total{namespace="orders",reason="sealed"} 0
gormflake_refusals_total{namespace="orders",reason="time_exhausted"} 0
# HELP gormflake_worker_slots Worker ids of the namespace, by state.
# TYPE gormflake_worker_slots gauge
gormflake_worker_slots{namespace="orders",state="free"} 1007
gormflake_worker_slots{namespace="orders",state="held"} 1
gormflake_worker_slots{namespace="orders",state="released"} 0
# HELP gormflake_epoch_end_timestamp_seconds Unix time at which the layout's time bits are used up.
# TYPE gormflake_epoch_end_timestamp_seconds gauge
gormflake_epoch_end_timestamp_seconds{namespace="orders"} 3.619093655552e+09
`), "gormflake_up", "gormflake_lease_term", "gormflake_refusals_total", "gormflake_worker_slots", "gormflake_epoch_end_timestamp_seconds")
	if err != nil {
		t.Error(err)
	}
}

func TestBeforeTheStart(t *testing.T) {
	c := metrics.NewCollector(func() *generator.Generator { return nil }, metrics.Options{Labels: prometheus.Labels{"app": "shop"}})
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP gormflake_up 1 while ids can be had, else 0.
# TYPE gormflake_up gauge
gormflake_up{app="shop",namespace=""} 0
`)); err != nil {
		t.Error(err)
	}
}

// The rules and the dashboard may name only metrics that exist.
func TestAlertsAndDashboardNameRealMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collect(t, lease.Memory()))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, f := range families {
		known = append(known, f.GetName(), f.GetName()+"_sum", f.GetName()+"_count")
	}
	name := regexp.MustCompile(`gormflake_[a-z_]+`)
	for _, file := range []string{"alerts.yml", "dashboard.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := name.FindAllString(string(text), -1)
		if len(names) < 8 {
			t.Errorf("%s: want at least 8 metrics, got %v", file, names)
		}
		for _, n := range names {
			if !slices.Contains(known, n) {
				t.Errorf("%s names %s, which is not exported", file, n)
			}
		}
	}
	text, _ := os.ReadFile("dashboard.json")
	var board struct {
		Title  string
		Panels []struct{ Title string }
	}
	if err := json.Unmarshal(text, &board); err != nil || board.Title == "" || len(board.Panels) < 10 {
		t.Errorf("dashboard.json: want a title and at least 10 panels, got %+v, %v", board, err)
	}
}
