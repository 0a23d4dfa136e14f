package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// refused records that a replica refused the host's state.
func (h *Host) refused(replica string, m *agentv1.Refused) {
	then := "no heartbeat is sent there"
	if held := m.GetHeldVersion(); held > 0 {
		then = fmt.Sprintf("the host stays in service there by version %d", held)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusals == nil {
		h.refusals = map[string]string{}
	}
	h.refusals[replica] = fmt.Sprintf("replica %s refuses version %d: %s: %s (%s)", replica, m.GetVersion(), m.GetReason(), strings.Join(m.GetProblems(), ", "), then)
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
	return strings.Join(slices.Sorted(maps.Values(h.refusals)), "; ")
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
