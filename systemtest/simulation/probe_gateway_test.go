package simulation

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard/shardtest"
)

// script decides what happens to a gateway's claims and releases in a probe. Each use of call sends
// the request once.
type script func(ctx context.Context, req *cellv1.ClaimBatchRequest, call func(context.Context) (*cellv1.ClaimBatchResponse, error)) (*cellv1.ClaimBatchResponse, error)

// follow runs the claims and releases of a part through a script. nil ends it.
func (n *network) follow(from string, s script) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.scripts == nil {
		n.scripts = map[string]script{}
	}
	n.scripts[from] = s
}

// scripted runs a call through the part's script. It returns false if no script applies.
func (n *network) scripted(ctx context.Context, from string, req, reply any, invoke func(ctx context.Context, req, reply any) error) (bool, error) {
	n.mu.Lock()
	s := n.scripts[from]
	n.mu.Unlock()
	batch, is := req.(*cellv1.ClaimBatchRequest)
	if s == nil || !is {
		return false, nil
	}
	batch = proto.CloneOf(batch)
	got, err := s(ctx, batch, func(ctx context.Context) (*cellv1.ClaimBatchResponse, error) {
		out := &cellv1.ClaimBatchResponse{}
		err := invoke(ctx, batch, out)
		return out, err
	})
	if err == nil {
		proto.Merge(reply.(proto.Message), got)
	}
	return true, err
}

// claimed and released give the claim_ids that a call claims and releases.
func claimed(req *cellv1.ClaimBatchRequest) (ids []string) {
	for _, op := range req.GetOps() {
		if id := op.GetClaim().GetClaimId(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

func released(req *cellv1.ClaimBatchRequest) (ids []string) {
	for _, op := range req.GetOps() {
		if id := op.GetRelease().GetClaimId(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// probeRequest asks for instances of so many VCPU.
func probeRequest(what string, vcpus int32, consumers ...string) *cellgatev1.SelectDestinationsRequest {
	return &cellgatev1.SelectDestinationsRequest{
		RequestId: "probe-" + what, InstanceUuids: consumers, ClaimTtl: durationpb.New(30 * time.Second),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: vcpus, MemoryMb: memoryOf(vcpus), RootGb: diskOf(vcpus)}, ProjectId: "p",
		}},
	}
}

// probeUndo takes the place of one of two instances between proposal and claim, so that the request
// fails. The other instance's claim must be gone when the answer comes.
func (w *world) probeUndo() {
	vcpus := w.roomForTwo()
	if vcpus == 0 {
		return // no amount fits just twice
	}
	d, stranger := w.gateways[0], uuidOf(0xb, 1)
	consumers := []string{uuidOf(0xf, 91_001), uuidOf(0xf, 91_002)}
	var mu sync.Mutex
	var on []string
	taken := make(chan struct{})
	w.net.follow(d.name, func(ctx context.Context, req *cellv1.ClaimBatchRequest, call func(context.Context) (*cellv1.ClaimBatchResponse, error)) (*cellv1.ClaimBatchResponse, error) {
		if len(claimed(req)) > 0 {
			mu.Lock()
			for _, op := range req.GetOps() {
				on = append(on, op.GetClaim().GetHostUuid())
			}
			mu.Unlock()
			select {
			case <-taken:
			case <-ctx.Done():
			}
		}
		return call(ctx)
	})
	defer w.net.follow(d.name, nil)
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := d.scheduler().SelectDestinations(ctx, probeRequest("undo", vcpus, consumers...))
		w.checks.poll()
		if live := w.checks.liveOf(consumers); len(live) > 0 && err != nil {
			w.wrong("I4: a request failed with %v, and its claims %v are there", err, live)
		}
		answered <- err
	}()
	sleep(100 * time.Millisecond)
	mu.Lock()
	planned := slices.Clone(on)
	mu.Unlock()
	if len(planned) == 0 {
		w.wrong("two instances of %d VCPU are not placed when all is quiet: %v", vcpus, <-answered)
		return
	}
	h := w.hostOf(planned[len(planned)-1])
	h.change(func() {
		h.instances[stranger] = &agentv1.Instance{InstanceUuid: stranger, ProjectId: "p", Usages: usagesOf(h.uuid, vcpus)}
	})
	sleep(500 * time.Millisecond)
	close(taken)
	if err := <-answered; fault.KindOf(err) == fault.NoValidHost {
		w.count("probed: a request failed halfway")
	} else {
		w.wrong("two instances of %d VCPU are asked for, the place of one is taken, and the answer is %v", vcpus, err)
	}
	h.stop(stranger)
	sleep(2 * time.Second)
}

// roomForTwo returns a number of VCPUs that fits once on each of two hosts, and on no other host.
// It returns 0 if there is none.
func (w *world) roomForTwo() int32 {
	var left []int64
	for _, c := range w.cells {
		rows, _, err := shardtest.LoadRows(context.Background(), c.store)
		w.must(err)
		for _, h := range w.hosts {
			if h.cell == c && rows.Hosts[h.uuid] != nil {
				left = append(left, min(free(rows, h, "VCPU"), free(rows, h, "MEMORY_MB")/1024, free(rows, h, "DISK_GB")/10))
			}
		}
	}
	slices.Sort(left)
	slices.Reverse(left)
	if len(left) < 2 || left[1] < 1 || left[0] >= 2*left[1] || len(left) > 2 && left[2] == left[1] {
		return 0
	}
	return int32(left[1])
}

// liveOf returns the claim_ids of the consumers' live claims.
func (k *checks) liveOf(consumers []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	live := map[string]bool{}
	for _, c := range k.cells {
		for id, claim := range c.claims {
			if claim.State.Live() && slices.Contains(consumers, claim.ConsumerUUID) {
				live[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(live))
}

// probeKeep makes a caller give up before its claim is answered, and delays the gateway's release.
// The request is sent again and is answered with that claim. The late release must not end it.
func (w *world) probeKeep() {
	d, again, consumer := w.gateways[0], w.gateways[len(w.gateways)-1], uuidOf(0xf, 92_001)
	req := probeRequest("keep", 1, consumer)
	var mu sync.Mutex
	var made, back []string
	free := make(chan struct{})
	w.net.follow(d.name, func(ctx context.Context, req *cellv1.ClaimBatchRequest, call func(context.Context) (*cellv1.ClaimBatchResponse, error)) (*cellv1.ClaimBatchResponse, error) {
		mu.Lock()
		first := len(made) == 0
		mu.Unlock()
		switch {
		case len(claimed(req)) > 0 && first:
			_, _ = call(ctx) // nobody gets the result
			mu.Lock()
			made = claimed(req)
			mu.Unlock()
			<-ctx.Done()
			return nil, ctx.Err()
		case len(released(req)) > 0:
			select {
			case <-free:
			case <-ctx.Done():
			}
			mu.Lock()
			back = append(back, released(req)...)
			mu.Unlock()
		}
		return call(ctx)
	})
	defer w.net.follow(d.name, nil)
	short, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	got, err := d.scheduler().SelectDestinations(short, req)
	cancel()
	mu.Lock()
	was := slices.Clone(made)
	mu.Unlock()
	if fault.KindOf(err) == fault.NoValidHost && len(was) == 0 {
		close(free)
		return // everything is full
	}
	if err == nil || len(was) != 1 {
		w.wrong("a claim is made and its answer is lost: %v, %v, claims %v", got, err, was)
	}
	sleep(2 * tailEvery) // all replicas' tables have the claim
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	got, err = again.scheduler().SelectDestinations(ctx, req)
	close(free)
	if err != nil {
		w.wrong("a request that was given up is not placed when it is sent again: %v", err)
		return
	}
	sleep(3 * time.Second)
	w.checks.poll()
	claim := got.GetDestinations()[0].GetSelected().GetClaimId()
	if !slices.Equal(w.checks.liveOf([]string{consumer}), []string{claim}) {
		w.wrong("I3: a request that was given up was answered with claim %s when it was sent again; what its first attempt gave back took that", short8(claim))
	}
	mu.Lock()
	if slices.Contains(was, claim) && slices.Contains(back, claim) {
		w.count("probed: a claim was kept")
	}
	mu.Unlock()
	w.releaseProbe(again, consumer, claim)
}

// probeLate delivers a claim after its gateway gave it up and released it. The claim must not be
// made.
func (w *world) probeLate() {
	d, consumer := w.gateways[0], uuidOf(0xf, 93_001)
	var mu sync.Mutex
	var late func(context.Context) (*cellv1.ClaimBatchResponse, error)
	var lost []string
	gone := map[string]bool{}
	w.net.follow(d.name, func(ctx context.Context, req *cellv1.ClaimBatchRequest, call func(context.Context) (*cellv1.ClaimBatchResponse, error)) (*cellv1.ClaimBatchResponse, error) {
		mu.Lock()
		first := late == nil && len(claimed(req)) > 0
		if first {
			late, lost = call, claimed(req)
		}
		mu.Unlock()
		if first {
			return nil, fault.New(fault.CellUnavailable, "the connection broke after the call was sent")
		}
		got, err := call(ctx)
		if err == nil {
			mu.Lock()
			for i, op := range req.GetOps() {
				if got.GetOutcomes()[i].GetRefusal() == nil {
					gone[op.GetRelease().GetClaimId()] = true
				}
			}
			mu.Unlock()
		}
		return got, err
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	got, err := d.scheduler().SelectDestinations(ctx, probeRequest("late", 1, consumer))
	w.net.follow(d.name, nil)
	sleep(3 * time.Second) // releases after the answer are done
	if err == nil {
		w.releaseProbe(d, consumer, got.GetDestinations()[0].GetSelected().GetClaimId())
	}
	mu.Lock()
	defer mu.Unlock()
	if late != nil && gone[lost[0]] {
		_, _ = late(ctx) // it must be refused; the shard shows if it was not
		w.checks.poll()
		if slices.Contains(w.checks.liveOf([]string{consumer}), lost[0]) {
			w.wrong("I4: claim %s came after it was released, and was made", short8(lost[0]))
		}
		w.count("probed: a claim came after its release")
	}
}

func (w *world) releaseProbe(d *gatewayNode, consumer, claim string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.releaseClaim(ctx, d, consumer, claim)
	sleep(2 * time.Second)
	w.checks.poll()
	if live := w.checks.liveOf([]string{consumer}); len(live) > 0 {
		w.wrong("I4: claims of a probe that is over are there: %v", live)
	}
}
