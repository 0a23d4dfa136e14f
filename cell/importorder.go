package cell

import (
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// keepImports is how long, at least, the version of an import is remembered: longer than
// any call that brings one is under way. After it an older one is taken, as it has to be
// when the clocks that versions come from were set back.
const keepImports = time.Minute

// importOrder keeps an import that was delayed from undoing a newer one, where an agent
// has the host and the instances are the importer's to say: there the row has the agent's
// version, and the shard cannot tell. It is this replica's memory; gateways all send their
// imports to the same one.
type importOrder struct {
	now func() time.Time

	mu sync.Mutex
	// recent and before are the greatest versions taken, by host; they turn every
	// keepImports.
	recent, before map[string]uint64
	turned         time.Time
	// under are hosts of which an import is under way.
	under map[string]struct{}
}

func newImportOrder(now func() time.Time) *importOrder {
	return &importOrder{now: now, recent: map[string]uint64{}, before: map[string]uint64{}, turned: now(), under: map[string]struct{}{}}
}

// take says why an import of a host is not taken now; nil when it is. done is called when
// it is over.
func (o *importOrder) take(put *shard.PutHost) (done func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if age := o.now().Sub(o.turned); age >= keepImports {
		if o.before = o.recent; age >= 2*keepImports {
			o.before = map[string]uint64{}
		}
		o.recent, o.turned = map[string]uint64{}, o.now()
	}
	host, version := put.Host.UUID, put.Host.StateVersion
	if _, busy := o.under[host]; busy {
		return nil, fault.New(fault.StaleGeneration, "another import of host %s is under way", put.Host.ServiceHost)
	}
	if newest := max(o.recent[host], o.before[host]); version < newest {
		return nil, fault.New(fault.StaleGeneration, "import %d of host %s comes after a newer one, %d", version, put.Host.ServiceHost, newest)
	}
	o.recent[host], o.under[host] = version, struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.under, host)
	}, nil
}
