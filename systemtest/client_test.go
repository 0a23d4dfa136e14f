package systemtest

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// lease is that of every claim of a scenario.
const lease = time.Minute

// conductor calls the gateway and reacts to failures as docs/reference/api.md says.
type conductor struct {
	*world
	// answers holds the last answer for each request_id.
	answers map[string]*cellgatev1.SelectDestinationsResponse
	asked   []*cellgatev1.SelectDestinationsRequest
}

// again repeats an unchanged call until it succeeds or fails with an error that must not be
// repeated.
func again[T any](c *conductor, do func(context.Context) (T, error)) (T, error) {
	c.t.Helper()
	end := time.Now().Add(testwait.Limit)
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		got, err := do(ctx)
		cancel()
		if err == nil || !repeats(err) {
			return got, err
		}
		if time.Now().After(end) {
			c.t.Fatalf("still unanswered after %d tries: %v", try, err)
		}
		<-time.After(time.Second)
	}
}

// repeats reports whether docs/reference/api.md tells callers to repeat a call that failed with
// err.
func repeats(err error) bool {
	switch fault.KindOf(err) {
	case fault.CellUnavailable, fault.OutcomeUnknown, fault.Contended, fault.Overloaded:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

func yes[T any](c *conductor, what string, do func(context.Context) (T, error)) T {
	c.t.Helper()
	got, err := again(c, do)
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	return got
}

// request is for n instances from first on, of 2 VCPU.
func request(id string, first, n int) *cellgatev1.SelectDestinationsRequest {
	r := &cellgatev1.SelectDestinationsRequest{
		RequestId: id, ClaimTtl: durationpb.New(lease),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 2, MemoryMb: 1024, RootGb: 10}, ProjectId: "p",
		}},
	}
	for i := range n {
		r.InstanceUuids = append(r.InstanceUuids, uuidOf(0x1, first+i))
	}
	return r
}

func within(r *cellgatev1.SelectDestinationsRequest, cell string) *cellgatev1.SelectDestinationsRequest {
	r.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: cell}
	return r
}

func (c *conductor) selects(r *cellgatev1.SelectDestinationsRequest) []*cellgatev1.Selection {
	c.t.Helper()
	resp := yes(c, "select "+r.GetRequestId(), func(ctx context.Context) (*cellgatev1.SelectDestinationsResponse, error) {
		return c.scheduler.SelectDestinations(ctx, r)
	})
	if c.answers[r.GetRequestId()] == nil {
		c.asked = append(c.asked, r)
	}
	c.answers[r.GetRequestId()] = resp
	var out []*cellgatev1.Selection
	for _, d := range resp.GetDestinations() {
		out = append(out, d.GetSelected())
	}
	return out
}

func (c *conductor) confirms(consumer string, s *cellgatev1.Selection) *cellgatev1.Claim {
	c.t.Helper()
	return yes(c, "confirm", func(ctx context.Context) (*cellgatev1.ConfirmClaimResponse, error) {
		return c.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: consumer, ClaimId: s.GetClaimId()})
	}).GetClaim()
}

func (c *conductor) releases(consumer string, s *cellgatev1.Selection) {
	c.t.Helper()
	yes(c, "release", func(ctx context.Context) (*cellgatev1.ReleaseClaimResponse, error) {
		return c.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: consumer, ClaimId: s.GetClaimId()})
	})
}
