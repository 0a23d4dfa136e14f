package agent

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Version is the version of the report that agents write.
const Version = 1

// Host is what one host reports of itself in one agent incarnation. It is safe for
// concurrent use; the states it hands out are shared and must not be changed.
type Host struct {
	bootID string

	// claims are what the host holds besides its instances.
	claims *Claims

	mu      sync.Mutex
	state   *agentv1.FullState
	changed chan struct{} // closed and replaced by Put
	streams streams
	// refusals are what replicas refused, by replica, until they accept a state.
	refusals map[string]refusedBy
	// puts is when the newest versions were put, by version modulo its length.
	puts [8]time.Time
}

// NewHost starts a host's agent incarnation: a random boot id, and state as version 1.
// The Host owns state from here.
func NewHost(state *agentv1.FullState) *Host {
	state.Verifies = true
	h := &Host{bootID: uuid.NewString(), state: state, claims: newClaims(state), changed: make(chan struct{})}
	state.BootId, state.Version = h.bootID, 1
	h.puts[1] = time.Now()
	return h
}

// Put makes state the next version of this incarnation. The Host owns it from here.
func (h *Host) Put(state *agentv1.FullState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(state, 0)
}

// put makes state the next version, above that one too.
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

// trustCell has the host not verify the claims of its cell, before it is reported.
func (h *Host) trustCell() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Verifies = false
}

// State gives the newest state and a channel that is closed when there is a
// newer one.
func (h *Host) State() (*agentv1.FullState, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state, h.changed
}

// renew gives the unchanged state the next version, unless the state is newer than version
// and above already.
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

// putAt gives when a version was put; of one long ago, when the oldest one was that is
// known.
func (h *Host) putAt(version uint64) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := uint64(len(h.puts))
	if newest := h.state.GetVersion(); version+n <= newest {
		version = newest - n + 1
	}
	return h.puts[version%n]
}

// sharing is a copy of a state that shares what is in it.
func sharing(s *agentv1.FullState) *agentv1.FullState {
	out := &agentv1.FullState{}
	to := out.ProtoReflect()
	s.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(field, v)
		return true
	})
	return out
}
