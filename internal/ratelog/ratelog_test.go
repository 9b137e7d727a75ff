package ratelog_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gormflake/gormflake/internal/ratelog"
)

func TestOneLineAMinuteForEachReason(t *testing.T) {
	var out strings.Builder
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	log := ratelog.Logger{To: slog.New(slog.NewTextHandler(&out, nil)), Now: func() time.Time { return now }}
	lines := func() int { return strings.Count(out.String(), "\n") }

	for range 1000 {
		log.Warn(context.Background(), "clock", "the clock went back")
	}
	log.Warn(context.Background(), "store", "the store is away")
	if got := lines(); got != 2 {
		t.Fatalf("want a line for each of 2 reasons, got %d:\n%s", got, out.String())
	}
	now = now.Add(ratelog.Interval)
	log.Warn(context.Background(), "clock", "the clock went back")
	if got := lines(); got != 3 || !strings.Contains(out.String(), "held_back=999") {
		t.Fatalf("want a third line with held_back=999, got:\n%s", out.String())
	}
	now = now.Add(-time.Hour)
	log.Warn(context.Background(), "clock", "the clock went back")
	if got := lines(); got != 4 {
		t.Fatalf("a clock that went back must not silence the log, got %d lines", got)
	}
}
