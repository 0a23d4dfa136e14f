package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// listingCells answers ListCells with one cell, and signals each answer.
type listingCells struct {
	cellgatev1.UnimplementedCellsServer
	answered chan struct{}
}

func (l *listingCells) ListCells(context.Context, *cellgatev1.ListCellsRequest) (*cellgatev1.ListCellsResponse, error) {
	select {
	case l.answered <- struct{}{}:
	default: // nobody waits any more
	}
	return &cellgatev1.ListCellsResponse{Cells: []*cellgatev1.Cell{{Cell: "cell1"}}}, nil
}

// serveCells serves until stop.
func serveCells(t *testing.T, address string, cells *listingCells) (addr string, stop func()) {
	t.Helper()
	at, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return at.Addr().String(), serveGRPC(t, at, func(s *grpc.Server) { cellgatev1.RegisterCellsServer(s, cells) })
}

func TestWatch_GatewayStartsAnew_GoesOn(t *testing.T) {
	cells := &listingCells{answered: make(chan struct{}, 2)}
	addr, stop := serveCells(t, "127.0.0.1:0", cells)
	watch := launch(t, true, "cells", "--watch=10ms", "--addr", addr)
	<-cells.answered
	<-cells.answered // the second query shows that the first answer has arrived
	stop()
	watch.await("no answer from the gateway at " + addr)
	watch.await("trying again every 10ms")
	_, stop = serveCells(t, addr, cells)
	watch.await("the gateway at " + addr + " answers again")
	watch.stop()
	stop()
	// If the gateway never answered, the command fails at once.
	if _, stderr, status := typed(t.Context(), "", "cells", "--watch=10ms", "--addr", addr); status != exitUnreachable || strings.Contains(stderr, "trying") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

func TestFlagged_FieldsOfARequest_AreTheCommandsFlags(t *testing.T) {
	for _, c := range []struct{ command, path, problem, want string }{
		{"select", "request_spec.availability_zone", "is bad", "--zone: is bad"},
		{"select", "request_spec.member_of[0].aggregates[1]", "is bad", "--aggregate: is bad"},
		{"select", `request_spec.resources["VCPUU"]`, "is bad", "--resource VCPUU: is bad"},
		{"select", `request_spec.resources["VCPUU"]`, `unknown resource class "VCPUU"`, `--resource: unknown resource class "VCPUU"`},
		{"select", `request_spec.flavor.extra_specs["hw:numa_nodes"]`, "is bad", "--extra-spec hw:numa_nodes: is bad"},
		{"select", "request_spec.requested_destination.cell", "is bad", "--cell: is bad"},
		{"select", "instance_uuids[0]", `"web" is not a uuid`, `--instance: "web" is not a uuid; ` + instanceHelp},
		{"explain", "request_spec.instance_group.uuid", `"web" is not a uuid`, `--group: "web" is not a uuid; ` + uuidHelp["instance_group"]},
		{"capacity", "changes.drained_hosts[0]", "is bad", "--drain: is bad"},
		{"capacity", "shapes[0].request_spec.required_traits[0]", "is bad", "--trait: is bad"},
		{"drain", "hosts[1]", "is bad", "HOST: is bad"},
		{"claims get", "consumer_uuid", `"web" is not a uuid`, `INSTANCE: "web" is not a uuid; ` + instanceHelp},
		{"claims list", "consumer_uuid", `"web" is not a uuid`, `--instance: "web" is not a uuid; ` + instanceHelp},
		{"hosts maintenance", "lasts", "is bad", "--for: is bad"},
		{"hosts", "something.else", "is bad", "something.else: is bad"},
	} {
		cmd, _, err := newRoot(terminal{}).Find(strings.Fields(c.command))
		if err != nil {
			t.Fatal(err)
		}
		var e *fault.Error
		if err := flagged(cmd, fault.Invalid(c.path, "%s", c.problem)); !errors.As(err, &e) || e.Message != c.want {
			t.Errorf("%s %s: %v, want %s", c.command, c.path, err, c.want)
		}
	}
	cmd, _, _ := newRoot(terminal{}).Find([]string{"select"})
	if err := cmd.Flags().Set("file", "request.json"); err != nil {
		t.Fatal(err)
	}
	if err := flagged(cmd, fault.Invalid("request_spec.availability_zone", "is bad")); !strings.Contains(err.Error(), "request_spec.availability_zone: is bad") {
		t.Errorf("of a file: %v", err)
	}
}

func TestSelectFlags_Expressions_AreInTheRequestsOfAllThree(t *testing.T) {
	args := []string{"--filter-expression", "host.free.VCPU > 8, 1", "--weigh-expression", "host.free.VCPU", "--weigh-multiplier", "0", "--hint", "same_host=a,b", "--hint", "same_host=c", "--aggregate", "fast"}
	check := func(name string, s *cellgatev1.RequestSpec) {
		t.Helper()
		hint := s.GetSchedulerHints()["same_host"].GetValues()
		if s.GetFilterExpression() != "host.free.VCPU > 8, 1" || s.GetWeighExpression() != "host.free.VCPU" || s.WeighMultiplier == nil || s.GetWeighMultiplier() != 0 ||
			len(hint) != 2 || hint[0] != "a,b" || s.GetMemberOf()[0].GetAggregates()[0] != "fast" {
			t.Errorf("%s: %v", name, s)
		}
	}
	cmd := newSelect(terminal{})
	for _, name := range []string{"explain", "capacity"} {
		other, _, err := newRoot(terminal{}).Find([]string{name})
		if err != nil || other.Flags().Lookup("filter-expression") == nil || other.Flags().Lookup("hint") == nil {
			t.Errorf("%s lacks flags of select: %v", name, err)
		}
	}
	var flags capacityFlags
	cmd.ResetFlags()
	flags.shape.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	selected, err := flags.shape.request(nil)
	if err != nil {
		t.Fatal(err)
	}
	check("select", selected.GetRequestSpec())
	estimate, err := flags.request(nil)
	if err != nil {
		t.Fatal(err)
	}
	check("capacity", estimate.GetShapes()[0].GetRequestSpec())
}

func TestDecisionsList_SinceNotBeforeUntil_IsRefused(t *testing.T) {
	_, stderr, status := typed(t.Context(), "", "decisions", "list", "--since", "1h", "--until", "2h")
	if status != exitUsage || !strings.Contains(stderr, "is not before --until") {
		t.Errorf("status %d\n%s", status, stderr)
	}
}
