package monitoring_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// healthy is an instance in its usual state, on SQL: scraped every 10 s.
const healthy = `load 10s
	gormflake_up{namespace="default",instance="a"} 1x60
	gormflake_state{namespace="default",instance="a",state="leased"} 1x60
	gormflake_state{namespace="default",instance="a",state="sealed"} 0x60
	gormflake_grant_remaining_seconds{namespace="default",instance="a"} 29 21 25 29 22 27 29 21x53
	gormflake_clock_skew_seconds{namespace="default",instance="a"} 0.002x60
	gormflake_clock_rollbacks_total{namespace="default",instance="a"} 2x60
	gormflake_refusals_total{namespace="default",instance="a",reason="sealed"} 3x60
	gormflake_lease_losses_total{namespace="default",instance="a"} 1x60
	gormflake_lease_extends_total{namespace="default",instance="a",result="ok"} 10+1x60
	gormflake_lease_extends_total{namespace="default",instance="a",result="failed"} 4x30 5x30
	gormflake_worker_slots{namespace="default",instance="a",state="held"} 40x60
	gormflake_worker_slots{namespace="default",instance="a",state="free"} 968x60
	gormflake_epoch_end_timestamp_seconds{namespace="default",instance="a"} 3.7e9x60
`

// TestAlertsFire has each alert meet what it is for, and all of them an instance
// that is well.
func TestAlertsFire(t *testing.T) {
	const of = `{namespace="default",instance="a"`
	for alert, series := range map[string]string{
		"GormflakeNoIDs":           `gormflake_up` + of + `} 1x10 0x50`,
		"GormflakeLeaseNotRenewed": `gormflake_lease_extends_total` + of + `,result="failed"} 0x10 0+2x50`,
		"GormflakeClockSkew":       `gormflake_clock_skew_seconds` + of + `} 0x10 -1.5x50`,
		"GormflakeClockRollback":   `gormflake_clock_rollbacks_total` + of + `} 0x30 1x30`,
		"GormflakeRefusals":        `gormflake_refusals_total` + of + `,reason="sealed"} 0x10 0+40x50`,
		"GormflakeLeaseLost":       `gormflake_lease_losses_total` + of + `} 0x30 1x30`,
		"GormflakeWorkersRunShort": `gormflake_worker_slots` + of + `,state="held"} 980x60
	gormflake_worker_slots` + of + `,state="free"} 28x60`,
		"GormflakeEpochEnds": `gormflake_epoch_end_timestamp_seconds` + of + `} 1e8x60`,
	} {
		t.Run(alert, func(t *testing.T) {
			if got := firing(t, "load 10s\n\t"+series+"\n"); !slices.Equal(got, []string{alert}) {
				t.Errorf("want %s alone to fire, got %v", alert, got)
			}
		})
	}
	t.Run("healthy", func(t *testing.T) {
		if got := firing(t, healthy); len(got) > 0 {
			t.Errorf("want no alert, got %v", got)
		}
	})
	t.Run("layout of 32 worker ids", func(t *testing.T) {
		narrow := strings.NewReplacer(`"held"} 40x60`, `"held"} 4x60`, `"free"} 968x60`, `"free"} 28x60`).Replace(healthy)
		if got := firing(t, narrow); len(got) > 0 {
			t.Errorf("want no alert, got %v", got)
		}
	})
}

// TestLeaseAlertComesBeforeTheRefusals: the store has stopped, and 20 s later the
// grant is used up.
func TestLeaseAlertComesBeforeTheRefusals(t *testing.T) {
	loaded := promqltest.LoadedStorage(t, `load 5s
	gormflake_lease_extends_total{namespace="default",instance="a",result="failed"} 0x24 1 3 5 7x30
`)
	defer loaded.Close()
	rule := rules(t)["GormflakeLeaseNotRenewed"]
	stopped := time.Unix(24*5, 0)
	if at, ok := since(t, engine(t), loaded, rule, stopped.Add(20*time.Second)); !ok || at < time.Duration(rule.For) {
		t.Errorf("want the alert within 20 s, got %v %v", at, ok)
	}
}

func engine(t *testing.T) *promql.Engine {
	return promqltest.NewTestEngine(t, false, time.Minute, promqltest.DefaultMaxSamplesPerQuery)
}

func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile("../../metrics/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	groups := parse(t, text)
	byName := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			byName[rule.Alert] = rule
		}
	}
	return byName
}

// firing returns the alerts that fire ten minutes after the series began.
func firing(t *testing.T, series string) (names []string) {
	t.Helper()
	loaded := promqltest.LoadedStorage(t, series)
	defer loaded.Close()
	e := engine(t)
	for name, rule := range rules(t) {
		if held, ok := since(t, e, loaded, rule, time.Unix(600, 0)); ok && held >= time.Duration(rule.For) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// since returns for how long the rule's expression has had a result at a time.
func since(t *testing.T, e *promql.Engine, series storage.Queryable, rule rulefmt.Rule, at time.Time) (held time.Duration, ok bool) {
	t.Helper()
	for when := at; when.Unix() >= 0; when = when.Add(-5 * time.Second) {
		query, err := e.NewInstantQuery(t.Context(), series, nil, rule.Expr, when)
		if err != nil {
			t.Fatal(err)
		}
		vector, err := query.Exec(t.Context()).Vector()
		query.Close()
		if err != nil {
			t.Fatal(err)
		}
		if len(vector) == 0 {
			break
		}
		held, ok = at.Sub(when), true
	}
	return held, ok
}
