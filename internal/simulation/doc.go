// Package simulation runs fleets of real generators on virtual time and checks
// what they promise.
package simulation
