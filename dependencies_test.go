package gormflake_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDependencies asks that a user compiles no driver and no client that the
// application has not chosen itself.
func TestDependencies(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(output))
	if len(packages) < 50 {
		t.Fatalf("want the list of what the package compiles, got %q", packages)
	}
	for _, name := range packages {
		for _, driver := range []string{"pgx", "go-sql-driver", "go-redis", "sqlite", "gorm.io/driver", "gorm.io/plugin", "prometheus", "cobra"} {
			if strings.Contains(name, driver) {
				t.Errorf("the plugin compiles %s", name)
			}
		}
	}
}
