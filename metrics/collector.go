// Package metrics exports a generator's state to Prometheus.
//
//	prometheus.MustRegister(metrics.NewCollector(flake.Generator, metrics.Options{}))
//
// alerts.yml beside this file has alert rules to begin with, dashboard.json a
// Grafana dashboard.
package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gormflake/gormflake/generator"
)

// Options are a collector's settings. The zero value is the default.
type Options struct {
	// Labels are added to every metric, for programs with several generators.
	// Each metric has the label namespace already.
	Labels prometheus.Labels
	// SlotsEvery is how often, at most, a scrape asks the lease store how many
	// worker ids are held: one statement. 0 means once a minute, negative
	// never.
	SlotsEvery time.Duration
}

// Collector is a prometheus.Collector over Generator.Stats. A scrape costs no
// more than a few atomic reads, and seldom a statement for the slots.
type Collector struct {
	generator func() *generator.Generator
	slots     *slots
	desc      descriptions
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of the generator that the function returns
// at each scrape, such as the plugin's Generator method; while it returns nil
// only gormflake_up is exported.
func NewCollector(generator func() *generator.Generator, options Options) *Collector {
	return &Collector{generator: generator, slots: newSlots(options.SlotsEvery), desc: describe(options.Labels)}
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.desc.all() {
		out <- d
	}
}

// Collect sends the present values.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	g := c.generator()
	if g == nil {
		out <- prometheus.MustNewConstMetric(c.desc.up, prometheus.GaugeValue, 0, "")
		return
	}
	s, d := g.Stats(), &c.desc
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, append([]string{s.Namespace}, labels...)...)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		send(desc, prometheus.GaugeValue, value, labels...)
	}
	count := func(desc *prometheus.Desc, value uint64, labels ...string) {
		send(desc, prometheus.CounterValue, float64(value), labels...)
	}

	gauge(d.up, truth(s.State == generator.StateLeased))
	for _, state := range []generator.State{generator.StateAcquiring, generator.StateLeased, generator.StateSealed, generator.StateClosed} {
		gauge(d.state, truth(s.State == state), string(state))
	}
	gauge(d.worker, float64(s.Worker))
	gauge(d.term, float64(s.Term))
	gauge(d.lead, s.Lead.Seconds())
	gauge(d.remaining, seconds(s.Remaining))
	gauge(d.skew, s.Skew.Seconds())
	gauge(d.epochEnd, float64(s.EpochEnd.UnixMilli())/1000)

	count(d.rollbacks, s.Rollbacks)
	count(d.waits, s.Waits.Sequence, "sequence")
	count(d.waits, s.Waits.Clock, "clock")
	count(d.waits, s.Waits.Grant, "grant")
	send(d.waited, prometheus.CounterValue, s.Waited.Seconds())
	count(d.refusals, s.Refusals.Clock, "clock_behind")
	count(d.refusals, s.Refusals.Sealed, "sealed")
	count(d.refusals, s.Refusals.Burst, "burst_too_large")
	count(d.refusals, s.Refusals.Exhausted, "time_exhausted")
	count(d.acquires, s.Acquires)
	count(d.losses, s.Losses)
	count(d.extends, s.Extends, "ok")
	count(d.extends, s.ExtendFailures, "failed")
	out <- prometheus.MustNewConstSummary(d.extendTime, s.Extends+s.ExtendFailures, s.ExtendTime.Seconds(), nil, s.Namespace)

	if counts, ok := c.slots.count(g); ok {
		gauge(d.slots, float64(counts.held), "held")
		gauge(d.slots, float64(counts.released), "released")
		gauge(d.slots, float64(counts.free), "free")
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds turns the largest Duration, which means no end, into +Inf.
func seconds(d time.Duration) float64 {
	if d == math.MaxInt64 {
		return math.Inf(1)
	}
	return d.Seconds()
}
