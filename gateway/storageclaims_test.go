package gateway

import (
	"slices"
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// An instance holds disk of a shared storage beside its claim on its host. That keeps it from nothing.
func TestMove_InstanceHoldsSharedStorage_IsMovedAndConfirmed(t *testing.T) {
	for _, target := range []string{"cell1", "cell2"} {
		t.Run(target, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			instance, storage := testUUID(0x1, 1), testUUID(0x5, 1)
			source := w.built("cell1")
			holds := []*cellv1.PlacementAllocation{{ProviderUuid: storage, ResourceClass: "DISK_GB", Amount: 3}}
			for _, a := range w.getClaim().GetAllocations() {
				holds = append(holds, &cellv1.PlacementAllocation{ProviderUuid: a.GetProviderUuid(), ResourceClass: a.GetResourceClass(), Amount: int64(a.GetAmount())})
			}
			out, err := w.cells[0].real.Placement.WritePlacement(t.Context(), &cellv1.WritePlacementRequest{
				Providers: []*cellv1.ProviderChange{{Uuid: storage, Create: true, Name: new("storage"), Inventories: &cellv1.PlacementInventories{
					Inventories: []*cellv1.PlacementInventory{{ResourceClass: "DISK_GB", Total: 9, MinUnit: 1, MaxUnit: 9, StepSize: 1, AllocationRatio: 1}},
				}}},
				Consumers: []*cellv1.ConsumerChange{{Uuid: instance, AnyGeneration: true, Allocations: holds}},
			})
			if err != nil || out.GetRefusal() != nil || w.liveClaims() != 2 {
				t.Fatal(out, err, w.liveClaims())
			}
			if c := w.getClaim(); c.GetClaimId() != source.GetClaimId() {
				t.Errorf("GetClaim gives %v", c)
			}
			if got := w.choose(move(cellgatev1.Operation_REBUILD, "")).GetDestinations()[0].GetSelected(); got.GetComputeNodeUuid() != source.GetComputeNodeUuid() {
				t.Errorf("rebuilt on %v", got)
			}
			moved := w.choose(to(move(cellgatev1.Operation_MOVE, "m1"), target)).GetDestinations()[0].GetSelected()
			if err := w.confirm(moved, instance); err != nil {
				t.Fatal(err)
			}
			list, err := w.claims.ListClaims(t.Context(), &cellgatev1.ListClaimsRequest{ConsumerUuid: instance})
			var on []string
			for _, c := range list.GetClaims() {
				on = append(on, c.GetHostUuid())
			}
			if err != nil || len(on) != 2 || !slices.Contains(on, storage) || !slices.Contains(on, moved.GetComputeNodeUuid()) {
				t.Errorf("the instance holds %v, %v", list, err)
			}
			w.counts(0, "cellgate_gateway_duplicate_confirmed_total")
		})
	}
}
