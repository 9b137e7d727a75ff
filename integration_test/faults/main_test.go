// Package faults breaks real servers and networks under fleets of generators.
// Whatever happens, each test gathers all ids of all members and finds none
// twice, terms and high waters that never go down where the store is durable,
// typed errors, and a fleet that recovers by itself.
package faults

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
