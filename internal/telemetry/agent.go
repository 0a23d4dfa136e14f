package telemetry

import (
	"time"

	"cellgate/internal/fault"
)

// Agent is the telemetry of a cell's agents in one process.
type Agent struct{ *part }

// Agent makes the handle of a fleet of a cell.
func (p *Process) Agent(cell string) Agent {
	a := Agent{p.newPart(cell)}
	a.show(agentReconnects, agentReadFailures)
	return a
}

// Reported counts a full state that was accepted, or refused with a kind.
func (a Agent) Reported(refused fault.Kind) { a.add(agentReports, 1, outcomeOfKind(refused)) }

// Reconnected counts a stream that ended and is opened again.
func (a Agent) Reconnected() { a.add(agentReconnects, 1) }

// Watch reads the number of accepted streams at each scrape.
func (a Agent) Watch(accepted func() int) {
	a.watch(func(emit Emit) { emit(agentConnected, float64(accepted())) })
}

// WatchRead reads, at each scrape, the time since the machine was last read successfully. It is for the
// agent of a real host.
func (a Agent) WatchRead(age func() time.Duration) {
	a.watch(func(emit Emit) { emit(agentReadAge, age().Seconds()) })
}

// ReadFailed counts a failed read of the machine.
func (a Agent) ReadFailed() { a.add(agentReadFailures, 1) }
