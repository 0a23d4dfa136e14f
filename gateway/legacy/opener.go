package legacy

import (
	"context"
	"sync/atomic"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Opener opens a Reader whose databases need not answer when the process starts.
type Opener struct {
	conf   Config
	reader atomic.Pointer[Reader]
}

// NewOpener checks the configuration, as Open does, and connects to nothing.
func NewOpener(c Config) (*Opener, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Opener{conf: c}, nil
}

// Open is described at Open. Whoever calls it closes the Reader.
func (o *Opener) Open(ctx context.Context) (*Reader, error) {
	r, err := Open(ctx, o.conf)
	if err == nil {
		o.reader.Store(r)
	}
	return r, err
}

// Find is that of the Reader that was opened last; before it is CELL_UNAVAILABLE.
func (o *Opener) Find(ctx context.Context, uuids []schedule.ID) ([]Instance, error) {
	r := o.reader.Load()
	if r == nil {
		return nil, fault.New(fault.CellUnavailable, "the cell database of %s has not been reached yet", o.conf.Cell)
	}
	return r.Find(ctx, uuids)
}
