package main

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// service changes the row of the compute's service, as Nova's API does.
func (k *compute) service(set string) {
	k.cell.write("UPDATE services SET "+set+", updated_at = UTC_TIMESTAMP() WHERE host = ? AND deleted = 0", k.host)
}

// keptFrom checks a host whose service was disabled while its cell was LEGACY, and whose cell is
// now NATIVE. Nothing is placed there until Nova enables the service. It then forces the host down.
func (u *upgradeSystem) keptFrom(k *compute) {
	u.t.Helper()
	is := func(nova string) {
		u.t.Helper()
		u.await(k.host+" is in service, or why not: "+nova, func(map[string]*cellgatev1.Gate) bool {
			passed, why := u.asks(k)
			status := u.host(k).GetAdmin().GetNova()
			return status == nova && passed == (nova == "") && (passed || strings.Contains(why, "ComputeFilter") && strings.Contains(why, nova))
		})
	}
	is("disabled in Nova: HW failure")
	// An operator of cellgate cannot override Nova.
	if _, err := cellgatev1.NewHostsClient(u.conns[0]).UpdateHost(u.t.Context(), &cellgatev1.UpdateHostRequest{HostUuid: k.uuid, AdminState: cellgatev1.HostAdmin_ENABLED}); err != nil {
		u.t.Error(err)
	}
	is("disabled in Nova: HW failure")
	k.service("disabled = false, disabled_reason = NULL")
	is("")
	k.service("forced_down = true")
	is("forced down in Nova")
	k.service("forced_down = false")
	is("")
}

// host returns a compute as operators see it.
func (u *upgradeSystem) host(k *compute) *cellgatev1.Host {
	ctx, cancel := context.WithTimeout(u.t.Context(), testwait.Limit)
	defer cancel()
	out, err := cellgatev1.NewHostsClient(u.conns[0]).GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: k.uuid})
	if err != nil {
		return nil
	}
	return out.GetHost()
}

// asks reports whether an instance may be placed on a compute, and why not.
func (u *upgradeSystem) asks(k *compute) (bool, string) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), testwait.Limit)
	defer cancel()
	_, err := cellgatev1.NewSchedulerClient(u.conns[0]).SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		RequestId: uuid.NewString(), InstanceUuids: []string{uuid.NewString()}, DryRun: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 64, RootGb: 1}, ProjectId: "demo", ForceHosts: []string{k.host},
		}},
	})
	if err != nil {
		return false, err.Error()
	}
	return true, ""
}
