package importer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// send sends work in batches, Config.Calls at once. After a failed call no other begins; a
// later step sends what was not answered.
func (m *Importer) send(ctx context.Context, all []work, at *timestamppb.Timestamp, c Cell, r *Report) error {
	calls, some := errgroup.WithContext(ctx)
	calls.SetLimit(m.conf.Calls)
	for rest := all; len(rest) > 0 && some.Err() == nil; {
		batch := m.batch(rest)
		rest = rest[len(batch):]
		calls.Go(func() error {
			if err := some.Err(); err != nil {
				return err
			}
			return m.call(some, batch, at, c, r)
		})
	}
	err := cmp.Or(calls.Wait(), ctx.Err())
	r.Waiting += len(all) - r.Sent
	return err
}

// batch gives the first hosts of all that fit into one call.
func (m *Importer) batch(all []work) []work {
	n, size := 0, 0
	for n < len(all) && n < m.conf.BatchHosts {
		if size += proto.Size(all[n].state); n > 0 && size > batchBytes {
			break
		}
		n++
	}
	return all[:n]
}

// call sends a batch. If the cell refuses the batch as a whole, call sends host by host, so
// that one host does not keep the others out.
func (m *Importer) call(ctx context.Context, batch []work, at *timestamppb.Timestamp, c Cell, r *Report) error {
	in := &cellv1.ImportHostsRequest{InstancesAt: at}
	for _, w := range batch {
		in.Hosts = append(in.Hosts, &cellv1.ImportedHost{State: w.state})
	}
	out, err := c.ImportHosts(ctx, in)
	switch {
	case err != nil && fault.KindOf(err) == fault.InvalidRequest && len(batch) > 1:
		for i := range batch {
			if err := m.call(ctx, batch[i:i+1], at, c, r); err != nil {
				return err
			}
		}
		return nil
	case err != nil && fault.KindOf(err) == fault.InvalidRequest:
		m.answered(batch[0], refusal(err), r)
		return nil
	case err != nil:
		return err
	case len(out.GetOutcomes()) != len(batch):
		return fault.New(fault.Internal, "the cell answered %d of %d hosts", len(out.GetOutcomes()), len(batch))
	}
	for i, o := range out.GetOutcomes() {
		m.answered(batch[i], o, r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conf.Progress("hosts", r.Sent, r.Sent+r.Waiting)
	return nil
}

func refusal(err error) *cellv1.ImportOutcome {
	return &cellv1.ImportOutcome{Failure: &cellv1.Failure{Reason: string(fault.InvalidRequest), Message: problems(err)}}
}

// transient reports whether a failure may pass without a change of the host.
func transient(reason string) bool {
	switch fault.Kind(reason) {
	case fault.InvalidRequest, fault.NotFound, fault.AlreadyExists, fault.PermissionDenied:
		return false
	}
	return true
}

// A host waits at most mostConflictSteps before it is sent again because of a conflict.
const (
	mostConflictDoublings = 5
	mostConflictSteps     = 1 << mostConflictDoublings
)

// answered records the cell's outcome for a host.
func (m *Importer) answered(w work, o *cellv1.ImportOutcome, r *Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := w.host
	r.Sent++
	if f := o.GetFailure(); newerThere(f) {
		h.settled, h.outdated, h.inputs, h.sum = true, true, w.inputs, w.sum
		h.sendAgain(m.steps)
		return
	}
	h.outdated = false
	if f := o.GetFailure(); f != nil {
		r.Refused++
		why := fmt.Sprintf("%s: %s", f.GetReason(), f.GetMessage())
		r.leave(m.conf.MaxLeftOut, LeftOut{UUID: w.state.GetHostUuid(), Host: w.state.GetServiceHost(), Reason: RefusedByCell, Detail: why})
		if !transient(f.GetReason()) {
			h.settled, h.inputs, h.sum, h.refused, h.agents, h.taken, h.conflicts = true, w.inputs, w.sum, why, false, false, 0
		} else if !h.settled {
			r.Missing++
		}
		return
	}
	h.settled, h.inputs, h.sum, h.refused, h.agents, h.taken = true, w.inputs, w.sum, "", o.GetOwnedByAgent(), o.GetInstancesTaken()
	h.released = w.inputs.gone && len(w.state.GetInstances()) == 0 && (!h.agents || h.taken)
	switch {
	case h.agents:
		r.OwnedByAgents++
	case o.GetUnchanged():
		r.Unchanged++
	default:
		r.Taken++
	}
	r.Adopted += int(o.GetAdopted())
	r.Confirmed += int(o.GetConfirmed())
	r.Released += int(o.GetReleased())
	r.ClaimedElsewhere += int(o.GetClaimedElsewhere())
	r.Overcommitted += int(o.GetOvercommitted())
	r.NewerClaimsSkipped += int(o.GetNewerClaimsSkipped())
	switch {
	case o.GetClaimedElsewhere() == 0 && o.GetNewerClaimsSkipped() == 0:
		h.conflicts = 0
	default:
		// The claim elsewhere may end soon, since the other host's state is sent independently.
		// Newer rows may end a newer claim.
		h.sendAgain(m.steps)
	}
}

// sendAgain makes a later step send the host again; the wait grows each time.
func (h *host) sendAgain(steps uint64) {
	h.conflicts++
	h.again = steps + stepsAfter(h.conflicts)
}

// stepsAfter gives the number of steps that a host waits after that many conflicts.
func stepsAfter(times uint) uint64 { return 1 << min(times-1, mostConflictDoublings) }

// newerThere reports whether the cell did not take a host because it has a newer import of
// it, or is taking one now. That is reported, but is no failure.
func newerThere(f *cellv1.Failure) bool { return f.GetReason() == string(fault.StaleGeneration) }

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
