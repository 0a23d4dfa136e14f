package agent

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Version is the version of the report format that agents write.
const Version = 1

// Host is the state of one host in one agent incarnation. It is safe for concurrent use. The states
// that it returns are shared and must not be changed.
type Host struct {
	bootID string

	// claims are what the host holds besides its instances.
	claims *Claims

	mu      sync.Mutex
	state   *agentv1.FullState
	changed chan struct{} // closed and replaced by Put
	// streams says for each replica to which the host has an open stream whether it has accepted a state there.
	streams map[string]bool
	// refusals say for each replica that refused the host's state, and accepted none since, what it refused.
	refusals map[string]string
	// puts is when the newest versions were put, indexed by version modulo its length.
	puts [8]time.Time
}

// NewHost starts an agent incarnation of a host with a random boot id, and state as version 1. The Host
// takes ownership of state.
func NewHost(state *agentv1.FullState) *Host {
	state.Verifies = true
	h := &Host{bootID: uuid.NewString(), state: state, claims: newClaims(state), changed: make(chan struct{})}
	state.BootId, state.Version = h.bootID, 1
	h.puts[1] = time.Now()
	return h
}

// Put makes state the next version of this incarnation. The Host takes ownership of it.
func (h *Host) Put(state *agentv1.FullState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(state, 0)
}

// put makes state the next version. The version also exceeds above.
func (h *Host) put(state *agentv1.FullState, above uint64) {
	now, before := time.Now(), h.state.GetVersion()
	state.Verifies = h.state.GetVerifies()
	state.BootId, state.Version = h.bootID, max(before, above)+1
	for v := range min(state.Version-before, uint64(len(h.puts))) {
		h.puts[(state.Version-v)%uint64(len(h.puts))] = now
	}
	h.state = state
	h.claims.observe(state)
	close(h.changed)
	h.changed = make(chan struct{})
}

// Claims are the claims on the host.
func (h *Host) Claims() *Claims { return h.claims }

// trustCell makes the host not verify the claims of its cell. It must be called before the host is
// reported.
func (h *Host) trustCell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Verifies = false
}

// State returns the newest state, and a channel that is closed when there is a newer one.
func (h *Host) State() (*agentv1.FullState, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.changed
}

// renew gives the unchanged state a new version that exceeds above. It does nothing if the state is
// newer than version and its version exceeds above already.
func (h *Host) renew(version, above uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.state.GetVersion(); v == version || v <= above {
		h.put(proto.CloneOf(h.state), above)
	}
}

func (h *Host) version() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state.GetVersion()
}

// putAt returns when a version was put. For a version too old to be known, it returns when the oldest
// known was put.
func (h *Host) putAt(version uint64) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := uint64(len(h.puts))
	if newest := h.state.GetVersion(); version+n <= newest {
		version = newest - n + 1
	}
	return h.puts[version%n]
}
