// Package ratelog logs warnings at most once a minute for each reason, with
// the number of those it held back.
package ratelog

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Interval is the least time between two lines of one reason.
const Interval = time.Minute

// Logger limits the rate of another logger. The zero value logs to
// slog.Default.
type Logger struct {
	To  *slog.Logger
	Now func() time.Time // nil: time.Now

	mu      sync.Mutex
	reasons map[string]*reason
}

type reason struct {
	last time.Time
	held int
}

// Warn logs msg unless a line of the same reason was logged within the last
// Interval. The line carries the reason and how many were held back.
func (l *Logger) Warn(ctx context.Context, why, msg string, args ...any) {
	held, due := l.due(why)
	if !due {
		return
	}
	to := l.To
	if to == nil {
		to = slog.Default()
	}
	args = append([]any{slog.String("reason", why), slog.Int("held_back", held)}, args...)
	to.WarnContext(ctx, msg, args...)
}

func (l *Logger) due(why string) (held int, due bool) {
	now := time.Now()
	if l.Now != nil {
		now = l.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.reasons[why]
	if r == nil {
		if l.reasons == nil {
			l.reasons = map[string]*reason{}
		}
		l.reasons[why] = &reason{last: now}
		return 0, true
	}
	if since := now.Sub(r.last); since >= 0 && since < Interval {
		r.held++
		return 0, false
	}
	held, r.held, r.last = r.held, 0, now
	return held, true
}
