package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// lost are calls of a part that do not arrive.
type lost struct {
	is func(req any) bool
	// late sends the first such call.
	late func()
}

// lose makes those calls of a part not arrive for which is returns true.
func (n *network) lose(from string, is func(req any) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost == nil {
		n.lost = map[string]*lost{}
	}
	n.lost[from] = &lost{is: is}
}

// find ends the loss. It returns a function that sends the first lost call, or nil if there was
// none.
func (n *network) find(from string) func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lost[from]
	delete(n.lost, from)
	return l.late
}

func (n *network) loses(ctx context.Context, from, full string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts []grpc.CallOption) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.lost[from]
	if l == nil || !l.is(req) {
		return false
	}
	if l.late == nil {
		late, answer := proto.Clone(req.(proto.Message)), reply.(proto.Message).ProtoReflect().New().Interface()
		l.late = func() {
			free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = invoke(free, full, late, answer, cc, opts...) // nobody gets the result
		}
	}
	return true
}

// probeWord delivers an admin state and facts late, after newer ones were answered. The late ones,
// whose outcome was unknown, must change nothing.
func (w *world) probeWord() {
	d, h := w.gateways[0], w.hosts[int(w.plan.seed)%len(w.hosts)]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	comesLate := func(what string, say, then func() error) {
		w.net.lose(d.name, func(req any) bool {
			switch req.(type) {
			case *cellv1.SetAdminStateRequest, *cellv1.PutFactsRequest:
				return true
			}
			return false
		})
		err := say()
		late := w.net.find(d.name)
		if fault.KindOf(err) != fault.OutcomeUnknown || late == nil {
			w.wrong("%s of %s is lost, and its outcome is %v", what, h.name, err)
			return
		}
		sleep(3 * time.Second) // the breaker is closed again
		if err := then(); err != nil {
			w.wrong("what is said of %s after %s is not taken: %v", h.name, what, err)
		}
		late()
		rows, _, err := shardtest.LoadRows(ctx, h.cell.store)
		w.must(err)
		if a := rows.AdminStates[h.uuid]; len(a.Conditions().From(shard.SourceOperator)) > 0 {
			w.wrong("%s came after a newer word, and %s is %s", what, h.name, a.Conditions().Text())
		}
		if n := rows.Namespaces[h.uuid+" probe"]; n != nil && n.Facts != `{"n":1}` {
			w.wrong("%s came after newer facts, and those of %s are %s", what, h.name, n.Facts)
		}
		w.count("probed: a change came late")
	}
	word := func(state cellgatev1.HostAdmin_State) func() error {
		return func() error {
			_, err := d.hosts().UpdateHost(ctx, &cellgatev1.UpdateHostRequest{HostUuid: h.uuid, AdminState: state, Cell: h.cell.name, Reason: "a probe"})
			return err
		}
	}
	facts := func(n float64) func() error {
		return func() error {
			_, err := d.hosts().PutFacts(ctx, &cellgatev1.PutFactsRequest{
				HostUuid: h.uuid, Namespace: "probe", Facts: &structpb.Struct{Fields: map[string]*structpb.Value{"n": structpb.NewNumberValue(n)}},
			})
			return err
		}
	}
	forget := func() error {
		_, err := d.hosts().DeleteFacts(ctx, &cellgatev1.DeleteFactsRequest{HostUuid: h.uuid, Namespace: "probe"})
		return err
	}
	comesLate("an operator's change", word(cellgatev1.HostAdmin_DISABLED), word(cellgatev1.HostAdmin_ENABLED))
	comesLate("facts", facts(2), facts(1))
	comesLate("facts", facts(3), facts(1)) // the same facts as before
	comesLate("facts", facts(4), forget)
	comesLate("facts", facts(5), forget) // there are none already
	w.checks.poll()
}

// probeRelease delivers the release of a move's source late. By then the move was given up, and a
// migration's record held the source claim for a while. The release must end nothing.
func (w *world) probeRelease() {
	if len(w.cells) < 2 {
		return
	}
	d, consumer, record := w.gateways[0], uuidOf(0xf, 94_001), uuidOf(0x9, 94_001)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	on := func(c *simCell, how cellgatev1.Operation) (*cellgatev1.Selection, error) {
		req := probeRequest(fmt.Sprint("release-", how), 1, consumer)
		req.Operation = how
		for _, h := range w.hosts {
			if h.cell != c {
				req.GetRequestSpec().IgnoreHosts = append(req.GetRequestSpec().IgnoreHosts, h.name)
			}
		}
		got, err := d.scheduler().SelectDestinations(ctx, req)
		if err != nil {
			return nil, err
		}
		s := got.GetDestinations()[0].GetSelected()
		_, err = d.claims().ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: consumer, ClaimId: s.GetClaimId()})
		return s, err
	}
	source, err := on(w.cells[0], cellgatev1.Operation_BUILD)
	if err != nil {
		if fault.KindOf(err) != fault.NoValidHost {
			w.wrong("an instance of a probe is not placed: %v", err)
		}
		return // everything is full
	}
	sleep(2 * tailEvery) // all replicas' tables have the claim
	w.net.lose(d.name, func(req any) bool {
		batch, is := req.(*cellv1.ClaimBatchRequest)
		return is && slices.Contains(released(batch), source.GetClaimId())
	})
	moved, err := on(w.cells[1], cellgatev1.Operation_MOVE)
	late := w.net.find(d.name)
	if moved != nil {
		if late == nil || fault.KindOf(err) != fault.CellUnavailable && fault.KindOf(err) != fault.OutcomeUnknown {
			w.wrong("a move whose source's release is lost is confirmed with %v", err)
			return
		}
		sleep(3 * time.Second) // the breaker is closed again
		w.releaseClaim(ctx, d, consumer, moved.GetClaimId())
		for _, way := range [][2]string{{consumer, record}, {record, consumer}} {
			if _, err := d.claims().TransferClaim(ctx, &cellgatev1.TransferClaimRequest{ConsumerUuid: way[0], ClaimId: source.GetClaimId(), ToConsumer: way[1]}); err != nil {
				w.wrong("the source of a move is not transferred: %v", err)
			}
		}
		late()
		w.checks.poll()
		if live := w.checks.liveOf([]string{consumer}); !slices.Equal(live, []string{source.GetClaimId()}) {
			w.wrong("I3: the release of claim %s came after its move was given up, and the instance has %v", short8(source.GetClaimId()), live)
		}
		w.count("probed: a release came late")
	}
	w.releaseProbe(d, consumer, source.GetClaimId())
}

func (w *world) releaseClaim(ctx context.Context, d *gatewayNode, consumer, claim string) {
	if _, err := d.claims().ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: consumer, ClaimId: claim}); err != nil {
		w.wrong("a claim of a probe is not released: %v", err)
	}
}
