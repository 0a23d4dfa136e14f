package bus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// attemptTimeout bounds one call of the gateway.
	attemptTimeout = 25 * time.Second
	// releaseTimeout bounds the release of an earlier attempt's claim, which otherwise ends
	// with its lease.
	releaseTimeout = 5 * time.Second
	// settleTimeout is how long a move waits until Nova's rows confirm or end the claim of an
	// earlier move. The rows are read at once.
	settleTimeout = 5 * time.Second
	// writeAttempts bounds how many answers are tried if Placement refuses their hosts.
	writeAttempts = 3
	// firstPause and longestPause bound the pauses between attempts.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
)

// selectDestinations answers select_destinations. A refusal that may pass is retried for
// Config.Timeout; heartbeats keep the caller waiting meanwhile.
func (b *Bus) selectDestinations(ctx context.Context, r *request) (any, *failure, error) {
	a, failed := readArguments(r)
	if failed != nil {
		return nil, failed, nil
	}
	b.notifier.notify(r, a, "start")
	over, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	answer, err := b.askAndWrite(over, r, a)
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case err != nil:
		return nil, b.exception(r, err), nil
	}
	b.notifier.notify(r, a, "end")
	if a.objects {
		return selections(answer.GetDestinations()), nil, nil
	}
	return hostStates(answer.GetDestinations()), nil, nil
}

// askAndWrite gives the gateway's answer, after its allocations are written to Placement if that
// is configured. If a host is full in Placement, it asks the gateway again without that host.
func (b *Bus) askAndWrite(ctx context.Context, r *request, a *arguments) (*cellgatev1.SelectDestinationsResponse, error) {
	for attempt := 1; ; attempt++ {
		answer, err := b.ask(ctx, r, a)
		if err != nil || b.allocations == nil || a.dryRun {
			return answer, err
		}
		full, err := b.allocations.write(ctx, answer.GetDestinations(), a.owner())
		if err == nil || errors.Is(ctx.Err(), context.Canceled) {
			// After a cancellation the message is delivered again, and a gateway may already go on with the claims.
			return answer, err
		}
		b.log.Warn("the allocations of an answer are not in Placement; its claims are released", "request", r.APIRequest, "err", err)
		for _, d := range answer.GetDestinations() {
			if s := d.GetSelected(); s.GetClaimed() {
				b.release(ctx, r, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: s.GetClaimId(), Cell: s.GetCell()})
			}
		}
		switch {
		case full != "" && attempt < writeAttempts:
			a.ignore(full)
		case errors.Is(err, errPlacementChanged):
			return nil, fault.Wrap(fault.AlreadyExists, err, "allocations in Placement").With("consumer_uuid", a.instances[0])
		case full != "":
			return nil, fault.New(fault.NoValidHost, "%v", err)
		default:
			return nil, fault.Wrap(fault.CellUnavailable, err, "Placement")
		}
	}
}

// ask gives the gateway's answer. If an instance has a claim of another API request, ask
// repeats the request as a move. This is as in Nova, where existing allocations tell a move
// from a build. If a move finds the claim of an earlier move, it waits until that claim
// settles. Nova begins no move before the previous one has ended. So a claim that is still
// pending then belongs to a move that was reverted or failed, and is released.
func (b *Bus) ask(ctx context.Context, r *request, a *arguments) (*cellgatev1.SelectDestinationsResponse, error) {
	operation := cellgatev1.Operation_OPERATION_UNSPECIFIED
	if a.rebuild {
		operation = cellgatev1.Operation_REBUILD
	}
	var own []string // the request ids of this very message
	settled := time.Now().Add(b.settleWait)
	for released, pause := 0, firstPause; ; {
		req, err := a.request(r.APIRequest, b.cfg.MaxAttempts-1, durationpb.New(b.cfg.ClaimTTL), operation)
		if err != nil {
			return nil, fault.Invalid("request_spec", "%v", err)
		}
		if own == nil {
			move, err := a.request(r.APIRequest, b.cfg.MaxAttempts-1, durationpb.New(b.cfg.ClaimTTL), cellgatev1.Operation_MOVE)
			if err != nil {
				return nil, fault.Invalid("request_spec", "%v", err)
			}
			own = []string{req.GetRequestId(), move.GetRequestId()}
		}
		answer, err := b.attempt(ctx, r, req)
		if fault.KindOf(err) != fault.AlreadyExists {
			return answer, err
		}
		switch {
		case released < len(a.instances) && isEarlierAttempt(r, err, own) && b.releaseClaim(ctx, r, err):
			released++
		case len(a.instances) == 1 && operation == cellgatev1.Operation_OPERATION_UNSPECIFIED:
			operation = cellgatev1.Operation_MOVE
		case operation == cellgatev1.Operation_MOVE && time.Now().Before(settled):
			b.changed(faultOf(err).Metadata["cell"])
			select {
			case <-ctx.Done():
				return nil, err
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
		case operation == cellgatev1.Operation_MOVE && released < len(a.instances) && isPending(err) && b.releaseClaim(ctx, r, err):
			released++
		default:
			return nil, err
		}
	}
}

// attempt calls the gateway until it answers, refuses for good, or ctx ends.
func (b *Bus) attempt(ctx context.Context, r *request, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	ctx = b.outgoing(ctx, r)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		call, cancel := context.WithTimeout(ctx, attemptTimeout)
		answer, err := b.scheduler.SelectDestinations(call, req)
		cancel()
		if err == nil || !rpc.MayRepeat(fault.KindOf(err)) {
			return answer, err
		}
		wait := time.Duration((0.5 + rand.Float64()/2) * float64(pause))
		if e := faultOf(err); e != nil {
			wait = max(wait, e.RetryAfter)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// isPending reports whether the claim that an ALREADY_EXISTS names is pending.
func isPending(refused error) bool {
	e := faultOf(refused)
	return e != nil && e.Metadata["claim_state"] == cellgatev1.ClaimState_PENDING.String()
}

// isEarlierAttempt reports whether another attempt of the same API request made the claim that an
// ALREADY_EXISTS names: for example a live migration that goes on to the next host. It is false
// for a claim of this very message, whose request ids are own: after a redelivery, the next
// attempt finds that claim and keeps it.
func isEarlierAttempt(r *request, refused error, own []string) bool {
	if !isPending(refused) {
		return false
	}
	id := faultOf(refused).Metadata["claim_request_id"]
	return strings.HasPrefix(id, requestPrefix(r.APIRequest)) && !slices.Contains(own, id)
}

// releaseClaim releases the claim that an ALREADY_EXISTS names.
func (b *Bus) releaseClaim(ctx context.Context, r *request, refused error) bool {
	claim := faultOf(refused).Metadata
	return b.release(ctx, r, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: claim["consumer_uuid"], ClaimId: claim["claim_id"], Cell: claim["cell"]})
}

// release releases a claim, and reports whether it is gone. A claim that cannot be reached ends with its lease.
func (b *Bus) release(ctx context.Context, r *request, claim *cellgatev1.ReleaseClaimRequest) bool {
	ctx, cancel := context.WithTimeout(b.outgoing(context.WithoutCancel(ctx), r), releaseTimeout)
	defer cancel()
	_, err := b.claims.ReleaseClaim(ctx, claim)
	return err == nil || fault.KindOf(err) == fault.NotFound
}

// outgoing gives the context of calls for a request: the caller is a conductor, and its share
// is by project.
func (b *Bus) outgoing(ctx context.Context, r *request) context.Context {
	if r.Project != "" && len(r.Project) <= 255 && printable(r.Project) {
		ctx = metadata.AppendToOutgoingContext(ctx, "cellgate-project", r.Project)
	}
	return b.as(ctx)
}

// printable reports whether a text may be the value of a header.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// exception gives the exception after which the conductor does the right thing. The conductor
// undoes every kind of operation only after NoValidHost. A cell or a gateway that does not
// answer never becomes NoValidHost.
func (b *Bus) exception(r *request, err error) *failure {
	e := faultOf(err)
	if e == nil {
		e = fault.New(fault.Internal, "%v", err)
	}
	switch {
	case e.Kind == fault.NoValidHost:
		detail, _ := e.Detail.(*cellgatev1.NoValidHost)
		return noValidHost(reasonOf(b.cfg.Reasons, detail))
	case e.Kind == fault.InvalidRequest:
		why := e.Message
		if len(e.Fields) > 0 {
			var all []string
			for _, f := range e.Fields {
				all = append(all, f.Path+": "+f.Problem)
			}
			why = strings.Join(all, "; ")
		}
		b.log.Warn("a request of the message bus cannot be honoured", "request", r.APIRequest, "why", why)
		return noValidHost("The request cannot be honoured: " + why)
	case e.Kind == fault.AlreadyExists:
		consumer := e.Metadata["consumer_uuid"]
		if consumer == "" {
			consumer = "unknown"
		}
		return allocationUpdateFailed(consumer, e.Message)
	case rpc.MayRepeat(e.Kind):
		return newFailure(moduleMessaging, "MessagingTimeout", "cellgate gave no answer within %v: %s: %s", b.cfg.Timeout, e.Kind, e.Message)
	}
	b.log.Error("a request of the message bus failed", "request", r.APIRequest, "kind", string(e.Kind), "err", err)
	return newFailure(moduleCellgate, string(e.Kind), "%s", e.Message)
}

// reasonOf gives the reason in NoValidHost, which users see in the fault of their server.
func reasonOf(tell string, detail *cellgatev1.NoValidHost) string {
	reason := "There are not enough hosts available."
	var filters []string
	for _, reject := range detail.GetRejects() {
		name := reject.GetFilter()
		if reject.GetDetail() != "" {
			name += "(" + reject.GetDetail() + ")"
		}
		if tell == "counts" {
			name = fmt.Sprintf("%d %s", reject.GetHosts(), name)
		}
		filters = append(filters, name)
	}
	switch {
	case tell == "none":
	case tell == "counts" && len(filters) > 0:
		reason += fmt.Sprintf(" Of %d hosts: %s", detail.GetHosts(), strings.Join(filters, ", "))
	case tell == "counts":
		reason += fmt.Sprintf(" Of %d hosts", detail.GetHosts())
	case len(filters) > 0:
		reason += " Rejected by " + strings.Join(filters, ", ")
	}
	return reason
}
