package shard

import (
	"cmp"
	"fmt"

	"cellgate/internal/fault"
)

// RemoveHost removes a host without live claims. Its row stays, as after an import that lacks the host (Host.Gone),
// so that readers of the journal follow. A new registration makes it a host again, with its old AdminState and
// namespaces. An unknown host is refused, NOT_FOUND; a host with live claims, FAILED_PRECONDITION.
type RemoveHost struct {
	HostUUID string
	// Reason stays in the row, for people.
	Reason string
}

func (r *RemoveHost) problem() string {
	return cmp.Or(idsProblem("host_uuid", r.HostUUID), textProblem("reason", r.Reason))
}

func (t *transaction) removeHost(r *RemoveHost) Outcome {
	old := t.view.Hosts[r.HostUUID]
	if old == nil || old.Gone() {
		return refused(fault.NotFound, "no host %s", r.HostUUID)
	}
	if live := t.liveOn(r.HostUUID); len(live) > 0 {
		c := t.view.Claims[live[0]]
		return refusedFor(c, fault.FailedPrecondition, "host %s has %s, of consumer %s: move or release what is on it first", r.HostUUID, claimsText(live), c.ConsumerUUID)
	}
	t.putHostRow(&Host{
		UUID: old.UUID, ServiceHost: old.ServiceHost, NodeName: old.NodeName, Disabled: true, DisabledReason: r.Reason,
		Providers: []Provider{{UUID: old.UUID, Name: old.Providers[0].Name}}, Imported: true,
	})
	return Outcome{}
}

func claimsText(ids []string) string {
	if len(ids) == 1 {
		return "claim " + ids[0]
	}
	return fmt.Sprintf("%d live claims, the first of them %s", len(ids), ids[0])
}
