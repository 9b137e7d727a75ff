// Package integration_test runs the plugin against real servers.
package integration_test
