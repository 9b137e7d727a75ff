// Package monitoring_test has Prometheus and Grafana read the rules and the dashboard
// of metrics/. It is a module of its own, for what those depend on.
package monitoring_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestAlertRulesLoad has Prometheus' own parser read the rules, their expressions
// and their templates.
func TestAlertRulesLoad(t *testing.T) {
	if n := len(rules(t)); n < 5 {
		t.Errorf("want the rules, got %d", n)
	}
}

func parse(t *testing.T, text []byte) *rulefmt.RuleGroups {
	t.Helper()
	groups, errs := rulefmt.Parse(text, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Fatal(err)
	}
	return groups
}

// TestDashboardLoads reads the dashboard by Grafana's own schema, which knows every
// field of a panel, and each of its queries by Prometheus' parser.
func TestDashboardLoads(t *testing.T) {
	text, err := os.ReadFile("../../metrics/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	plugins.RegisterDefaultPlugins() // so that it knows each kind of panel and query
	//lint:ignore SA1019 the classic schema is the one that every Grafana loads
	var board dashboard.Dashboard
	// The error is a list, which is not nil when it is empty.
	if err := board.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		t.Error(err)
	}
	if err := board.Validate(); err != nil {
		t.Error(err)
	}
	if len(board.Panels) < 5 {
		t.Errorf("want the panels, got %d", len(board.Panels))
	}
	var plain struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &plain); err != nil {
		t.Fatal(err)
	}
	queries := 0
	promql := parser.NewParser(parser.Options{})
	for _, panel := range plain.Panels {
		for _, target := range panel.Targets {
			queries++
			if _, err := promql.ParseExpr(substitute(target.Expr)); err != nil {
				t.Errorf("panel %q: %v", panel.Title, err)
			}
		}
	}
	if queries < 5 {
		t.Errorf("want the panels' queries, got %d", queries)
	}
}

// substitute puts a value in the place of Grafana's variables.
func substitute(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "5m")
	return regexp.MustCompile(`\$\w+`).ReplaceAllString(expr, ".*")
}
