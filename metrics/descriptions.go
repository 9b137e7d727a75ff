package metrics

import "github.com/prometheus/client_golang/prometheus"

// descriptions are the metrics' names, in base units and with the suffixes
// that https://prometheus.io/docs/practices/naming/ asks for.
type descriptions struct {
	up, state, worker, term                      *prometheus.Desc
	lead, remaining, skew, epochEnd              *prometheus.Desc
	rollbacks, waits, waited, refusals           *prometheus.Desc
	acquires, losses, extends, extendTime, slots *prometheus.Desc
}

func describe(labels prometheus.Labels) descriptions {
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("gormflake_"+name, help, append([]string{"namespace"}, variable...), labels)
	}
	return descriptions{
		up:         desc("up", "1 while ids can be had, else 0."),
		state:      desc("state", "1 for the generator's present state, 0 for the others.", "state"),
		worker:     desc("worker_id", "Leased worker id; -1 without a lease."),
		term:       desc("lease_term", "Fencing number of the lease; 0 without a lease."),
		lead:       desc("lead_seconds", "How far the last id is ahead of the clock; negative while none are asked for."),
		remaining:  desc("grant_remaining_seconds", "How far the confirmed grant reaches past the clock; +Inf without an end."),
		skew:       desc("clock_skew_seconds", "This machine's clock less the lease store's, at the last extension."),
		epochEnd:   desc("epoch_end_timestamp_seconds", "Unix time at which the layout's time bits are used up."),
		rollbacks:  desc("clock_rollbacks_total", "Times that the clock was seen to go back."),
		waits:      desc("waits_total", "Calls that waited, by reason.", "reason"),
		waited:     desc("wait_seconds_total", "Time that calls spent waiting."),
		refusals:   desc("refusals_total", "Calls that returned an error, by reason.", "reason"),
		acquires:   desc("lease_acquires_total", "Leases taken."),
		losses:     desc("lease_losses_total", "Leases lost to another owner."),
		extends:    desc("lease_extends_total", "Extensions of the lease, by result.", "result"),
		extendTime: desc("lease_extend_duration_seconds", "Time that extensions of the lease took."),
		slots:      desc("worker_slots", "Worker ids of the namespace, by state.", "state"),
	}
}

func (d *descriptions) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		d.up, d.state, d.worker, d.term, d.lead, d.remaining, d.skew, d.epochEnd,
		d.rollbacks, d.waits, d.waited, d.refusals,
		d.acquires, d.losses, d.extends, d.extendTime, d.slots,
	}
}
