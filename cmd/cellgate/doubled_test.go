package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/fault"
	"cellgate/internal/serverproc"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A request whose claim is confirmed is repeated while its cell is frozen. The gateway that
// confirmed it refuses. A gateway that was killed since does not know, and the instance gets a
// second confirmed claim. When the cell is thawed, the gateway counts it, and "claims doubled"
// lists both until one is released.
func TestI2_RepeatWhileItsCellIsFrozen(t *testing.T) {
	testlong.Only(t, "the I2 tests of gateway")
	s := startSystem(t, 3, 20, func(kind string) []string {
		if kind == "gateway" {
			return []string{"--propose-budget", "1s"}
		}
		return nil
	})
	scheduler, claims := cellgatev1.NewSchedulerClient(s.conn), cellgatev1.NewClaimsClient(s.conn)
	const instance = "33333333-3333-4333-8333-333333333333"
	req := &cellgatev1.SelectDestinationsRequest{
		RequestId: "frozen-1", InstanceUuids: []string{instance},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 512, RootGb: 1},
		}},
	}
	// selects and confirms repeat their calls until they succeed: the machine may be busy.
	selects := func() (got *cellgatev1.Selection) {
		s.await(testwait.Limit, "a selection", func(ctx context.Context) (bool, string) {
			ctx, cancel := context.WithTimeout(ctx, testwait.Limit)
			defer cancel()
			resp, err := scheduler.SelectDestinations(ctx, req)
			if err == nil {
				got = resp.GetDestinations()[0].GetSelected()
			}
			return err == nil, fmt.Sprint(err)
		})
		return got
	}
	confirms := func(c *cellgatev1.Selection) {
		s.await(testwait.Limit, "a confirm", func(ctx context.Context) (bool, string) {
			ctx, cancel := context.WithTimeout(ctx, testwait.Limit)
			defer cancel()
			_, err := claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: instance, ClaimId: c.GetClaimId()})
			return err == nil, fmt.Sprint(err)
		})
	}
	one := selects()
	confirms(one)

	var sick *member
	for _, m := range s.cells {
		if m.name == one.GetCell() {
			sick = m
		}
	}
	pid := sick.cmd.Process.Pid
	// This cleanup runs before the system is killed: a frozen process must be thawed.
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	if err := serverproc.Freeze(pid); err != nil {
		t.Fatal(err)
	}
	resp, err := scheduler.SelectDestinations(t.Context(), req)
	if fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), one.GetCell()) {
		t.Errorf("a repeat while %s is frozen: %v, %v", one.GetCell(), resp, err)
	}

	s.gateway.kill()
	s.gateway.start()
	two := selects()
	if two.GetCell() == one.GetCell() {
		t.Fatalf("%v is in the frozen cell", two)
	}
	confirms(two)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.await(testwait.Limit, "the gateway counts two confirmed claims", func(context.Context) (bool, string) {
		n := series(t, get(t, "http://"+s.web+"/metrics"))["cellgate_gateway_duplicate_confirmed_total"]
		return n >= 1, fmt.Sprintf("it counts %v", n)
	})

	// A cell that is slow just then is missing in the list.
	lists := func(want ...string) {
		s.await(testwait.Limit, fmt.Sprintf("claims doubled lists %v", want), func(ctx context.Context) (bool, string) {
			var list cellgatev1.ListClaimsResponse
			out, stderr, status := typed(ctx, "", "claims", "doubled", "--addr", s.api, "-o", "json")
			if err := protojson.Unmarshal([]byte(out), &list); status != exitDone || err != nil {
				return false, fmt.Sprintf("status %d, %v: %s%s", status, err, out, stderr)
			}
			var ids []string
			for _, c := range list.GetClaims() {
				ids = append(ids, c.GetConsumerUuid()+" "+c.GetClaimId())
			}
			slices.Sort(ids)
			slices.Sort(want)
			return slices.Equal(ids, want) && len(list.GetUnavailableCells()) == 0, fmt.Sprintf("%v, without %v", ids, list.GetUnavailableCells())
		})
	}
	lists(instance+" "+one.GetClaimId(), instance+" "+two.GetClaimId())
	cellgate(t, s.api, exitDone, nil, "claims", "release", instance, one.GetClaimId(), "--cell", one.GetCell())
	lists()
	if out, _, status := typed(t.Context(), "", "claims", "doubled", "--addr", s.api); status != exitDone || !strings.HasPrefix(out, "no doubled claims match\n") {
		t.Errorf("after the release: status %d, %q", status, out)
	}
}
