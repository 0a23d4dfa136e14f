package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// refusedBy is a replica's refusal of a host's state since it last accepted one.
type refusedBy struct {
	since time.Time
	why   string
	// held is the version that keeps the host in service at the replica; 0 for none.
	held uint64
}

// refused records that a replica refused the host's state.
func (h *Host) refused(replica string, m *agentv1.Refused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusals == nil {
		h.refusals = map[string]refusedBy{}
	}
	by, ok := h.refusals[replica]
	if !ok {
		by.since = time.Now()
	}
	by.held = m.GetHeldVersion()
	by.why = fmt.Sprintf("version %d: %s: %s", m.GetVersion(), m.GetReason(), strings.Join(m.GetProblems(), ", "))
	h.refusals[replica] = by
}

// clearRefusal records that a replica accepted the host's state.
func (h *Host) clearRefusal(replica string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.refusals, replica)
}

// Refused says which replicas refused the host's newest state and accepted none since, why, and whether
// the host stays in service there; "" for none.
func (h *Host) Refused() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]string, 0, len(h.refusals))
	for _, replica := range slices.Sorted(maps.Keys(h.refusals)) {
		by := h.refusals[replica]
		then := "no heartbeat is sent there"
		if by.held > 0 {
			then = fmt.Sprintf("the host stays in service there by version %d", by.held)
		}
		all = append(all, fmt.Sprintf("replica %s refuses since %s %s (%s)", replica, by.since.UTC().Format(time.RFC3339), by.why, then))
	}
	return strings.Join(all, "; ")
}

// Refused counts the hosts whose state a replica refuses, and describes the first one's refusals.
func (f *Fleet) Refused() (hosts int, why string) {
	for _, h := range f.hosts {
		text := h.Refused()
		if text == "" {
			continue
		}
		if hosts++; hosts == 1 {
			state, _ := h.State()
			why = fmt.Sprintf("host %s: %s", state.GetServiceHost(), text)
		}
	}
	return hosts, why
}
