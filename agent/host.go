package agent

import (
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Version is the version of the report that agents write.
const Version = 1

// Host is what one host says of itself in one agent life. It is safe for
// concurrent use; the states it hands out are shared and must not be changed.
type Host struct {
	bootID string

	mu      sync.Mutex
	state   *agentv1.FullState
	changed chan struct{} // closed and replaced by Put
	streams streams
}

// NewHost starts a host's agent life: a random boot id, and state as version 1.
// The Host owns state from here.
func NewHost(state *agentv1.FullState) *Host {
	h := &Host{bootID: uuid.NewString(), state: state, changed: make(chan struct{})}
	state.BootId, state.Version = h.bootID, 1
	return h
}

// Put makes state the next version of this life. The Host owns it from here.
func (h *Host) Put(state *agentv1.FullState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(state)
}

func (h *Host) put(state *agentv1.FullState) {
	state.BootId, state.Version = h.bootID, h.state.Version+1
	h.state = state
	close(h.changed)
	h.changed = make(chan struct{})
}

// State gives the newest state and a channel that is closed when there is a
// newer one.
func (h *Host) State() (*agentv1.FullState, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.changed
}

// renew makes the state the next version as it is, unless there is one after version.
func (h *Host) renew(version uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.GetVersion() == version {
		h.put(proto.CloneOf(h.state))
	}
}

func (h *Host) version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.GetVersion()
}
