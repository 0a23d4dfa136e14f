package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// refused notes that a replica refused the host's state: it hears nothing of the host until
// it accepts one.
func (h *Host) refused(replica string, m *agentv1.Refused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refusals == nil {
		h.refusals = map[string]string{}
	}
	h.refusals[replica] = fmt.Sprintf("replica %s refuses version %d: %s: %s", replica, m.GetVersion(), m.GetReason(), strings.Join(m.GetProblems(), ", "))
}

// taken notes that a replica accepted the host's state.
func (h *Host) taken(replica string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.refusals, replica)
}

// Refused says which replicas refused the host's newest state and accepted none since, with
// what is wrong; "" for none.
func (h *Host) Refused() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]string, 0, len(h.refusals))
	for _, replica := range slices.Sorted(maps.Keys(h.refusals)) {
		all = append(all, h.refusals[replica])
	}
	return strings.Join(all, "; ")
}

// Refused counts the hosts whose state a replica refuses, and says why of the first.
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
