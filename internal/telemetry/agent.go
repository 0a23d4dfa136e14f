package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cellgate/internal/fault"
)

// Agent is what the agents of a cell's hosts tell of themselves.
type Agent struct {
	p          *Process
	cell       string
	reports    lazily
	reconnects prometheus.Counter
	unread     prometheus.Counter
	verdicts   map[bool]prometheus.Counter
}

// Agent makes the handle of a fleet of a cell.
func (p *Process) Agent(cell string) *Agent {
	if p == nil {
		return nil
	}
	a := &Agent{p: p, cell: cell, reconnects: p.counter(agentReconnects, cell), unread: p.counter(agentReadFailures, cell)}
	a.verdicts = map[bool]prometheus.Counter{false: p.counter(agentVerdicts, cell, "ok"), true: p.counter(agentVerdicts, cell, "rejected")}
	a.reports.of = func(outcome string) prometheus.Counter { return p.counter(agentReports, cell, outcome) }
	return a
}

// Reported counts a full state that was accepted, or refused with a kind.
func (a *Agent) Reported(refused fault.Kind) {
	if a == nil {
		return
	}
	outcome := OK
	if refused != "" {
		outcome = inList(labelOutcome, string(refused))
	}
	a.reports.at(outcome).Inc()
}

// Verdict counts a verdict on a claim that the cell offered.
func (a *Agent) Verdict(rejected bool) {
	if a != nil {
		a.verdicts[rejected].Inc()
	}
}

// Reconnected counts a stream that ended and is opened again.
func (a *Agent) Reconnected() {
	if a != nil {
		a.reconnects.Inc()
	}
}

// Watch has the number of hosts and of accepted streams read.
func (a *Agent) Watch(hosts int, accepted func() int) {
	if a == nil {
		return
	}
	a.p.readings.add(func(emit Emit) {
		emit(agentHosts, float64(hosts), a.cell)
		emit(agentConnected, float64(accepted()), a.cell)
	})
}

// WatchRead has the time read since the machine was last read well: of an agent of a
// real host.
func (a *Agent) WatchRead(age func() time.Duration) {
	if a == nil {
		return
	}
	a.p.readings.add(func(emit Emit) { emit(agentReadAge, age().Seconds(), a.cell) })
}

// ReadFailed counts a time that the machine could not be read.
func (a *Agent) ReadFailed() {
	if a != nil {
		a.unread.Inc()
	}
}
