package gateway

import (
	"context"
	"sync"
	"time"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// fakeImporter imports what it is offered, at once.
type fakeImporter struct {
	begun chan struct{}

	mu      sync.Mutex
	offers  int
	dropped int
	// native counts the offers in NATIVE.
	native int
	// at is when it was offered rows last; zero for none.
	at time.Time
	// unclaimed is what it says.
	unclaimed *cellv1.UnclaimedInstances
}

func (m *fakeImporter) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (m *fakeImporter) Offer(x *novadb.Snapshot, native bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x == nil {
		m.dropped++
		m.at = time.Time{}
		return
	}
	if m.offers++; native {
		m.native++
	}
	if m.at.IsZero() {
		select {
		case m.begun <- struct{}{}:
		default:
		}
	}
	m.at = time.Now()
}

func (m *fakeImporter) Age() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.at), !m.at.IsZero()
}

func (m *fakeImporter) Imported() <-chan struct{} { return m.begun }

func (m *fakeImporter) Unclaimed() *cellv1.UnclaimedInstances {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unclaimed
}
