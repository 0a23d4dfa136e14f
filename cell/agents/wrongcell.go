package agents

import (
	"log/slog"
	"sync"
	"time"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// CheckCell refuses an agent that does not name this cell: its hosts would be in
// two cells, and each would claim their capacity.
func (c *Service) CheckCell(named string) error {
	switch named {
	case c.cfg.Cell:
		return nil
	case "":
		return fault.Invalid("cell", "the agent names no cell; this is cell %q", c.cfg.Cell)
	}
	return fault.Invalid("cell", "the agent is of cell %q; this is cell %q", named, c.cfg.Cell)
}

// logWrongCellEvery is how often refused agents of other cells are logged; those
// between are counted in the next line.
const logWrongCellEvery = time.Minute

// wrongCellAgents are the states that agents of other cells sent. The zero value is
// ready.
type wrongCellAgents struct {
	mu       sync.Mutex
	unlogged uint64
	logged   time.Time
}

func (s *wrongCellAgents) log(log *slog.Logger, at time.Time, in *agentv1.FullState, err error) {
	s.mu.Lock()
	s.unlogged++
	times := s.unlogged
	tell := s.logged.IsZero() || at.Sub(s.logged) >= logWrongCellEvery
	if tell {
		s.logged, s.unlogged = at, 0
	}
	s.mu.Unlock()
	if tell {
		log.Warn("an agent of another cell was refused", "host", in.GetServiceHost(), "host_uuid", in.GetHostUuid(), "err", err, "times", times)
	}
}
