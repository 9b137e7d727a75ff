package redislease

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
)

// reported is an error reply of the server.
type reported string

func (e reported) Error() string { return string(e) }
func (reported) RedisError()     {}

func TestTyped(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"read only", reported("READONLY You can't write against a read only replica."), ErrReadOnly},
		{"read only in a script of Redis 6", reported("ERR Error running script (call to f_a1): @user_script:48: @user_script: 48: -READONLY You can't write against a read only replica. "), ErrReadOnly},
		{"out of memory", reported("OOM command not allowed when used memory > 'maxmemory'."), ErrOutOfMemory},
		{"out of memory in a script of Redis 5", reported("ERR Error running script (call to f_a1): @user_script:48: @user_script: 48: -OOM command not allowed when used memory > 'maxmemory'."), ErrOutOfMemory},
		{"replicas", reported("NOREPLICAS Not enough good replicas to write."), ErrNotReplicated},
		{"permission", reported("NOPERM this user has no permissions to run the 'evalsha' command"), ErrNoPermission},
		{"permission in a script", reported("ERR The user executing the script can't run this command or subcommand script: a1, on @user_script:48."), ErrNoPermission},
		{"permission of a key in a script", reported("ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: a1"), ErrNoPermission},
		{"not logged in", reported("NOAUTH Authentication required."), ErrNoPermission},
		{"loading", reported("LOADING Redis is loading the dataset in memory"), ErrUnavailable},
		{"misconfigured", reported("MISCONF Redis is configured to save RDB snapshots"), ErrUnavailable},
		{"another type", reported("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrDamaged},
		{"a damaged row", reported("ERR user_script:24: DAMAGED row of worker 3 script: a1, on @user_script:24."), ErrDamaged},
		{"Redis 4", reported("ERR Error running script: Write commands not allowed after non deterministic commands. Call redis.replicate_commands()"), ErrUnsupported},
		{"refused connection", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, ErrUnavailable},
		{"broken connection", &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, ErrUnknownOutcome},
		{"a deadline", context.DeadlineExceeded, ErrUnknownOutcome},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := typed(t.Context(), tt.err); !errors.Is(err, tt.want) || !errors.Is(err, tt.err) {
				t.Errorf("typed(%q) = %v; want %v with its cause", tt.err, err, tt.want)
			}
		})
	}
	late := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	if err := typed(t.Context(), late); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("typed(%q) = %v; want an unknown outcome because of the deadline", late, err)
	}
	if err := typed(t.Context(), nil); err != nil {
		t.Errorf("typed(nil) = %v; want nil", err)
	}
	var word reported = "EXOTIC an answer of tomorrow"
	if err := typed(t.Context(), word); err == nil || errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("typed(%q) = %v; want an error that says the server refused", word, err)
	}
}

func TestParseRow(t *testing.T) {
	for _, text := range []string{"", "1", "1|2", "1|2|token", "x|2|token|0a", "1|x|token|0a"} {
		if row, err := parseRow(text); !errors.Is(err, ErrDamaged) {
			t.Errorf("parseRow(%q) = %+v, error %v; want ErrDamaged", text, row, err)
		}
	}
	row, err := parseRow("7|1420070400000|host.1/a|b|0a")
	if err != nil || row.Term != 7 || row.HighWater != 1420070400000 || row.Owner != "host.1/a|b" {
		t.Errorf("parseRow = %+v, error %v; want term 7, its high water, and the owner with its bar", row, err)
	}
}
