package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"

	"cellgate/gateway/admission"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// occupied takes the one place of a world's queue for selections until the test ends.
func (w *world) occupied() {
	w.t.Helper()
	leave, err := w.g.queues.selections.Enter(admission.Caller{Name: "flood"}, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(leave)
}

func TestAdmission_SelectionsFlood_ChangesOfClaimsPass(t *testing.T) {
	w := start(t, fleet(1, 9), func(c *Config) { c.MaxInFlight = 1 })
	first := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected()
	w.occupied()
	if e := w.refused(ask(2, 1), fault.Overloaded); e.RetryAfter <= 0 {
		t.Errorf("a refusal without RetryInfo: %v", e)
	}
	if err := w.confirm(first, testUUID(0x1, 1)); err != nil {
		t.Errorf("confirm: %v", err)
	}
	if _, err := w.claims.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1)}); err != nil {
		t.Errorf("get: %v", err)
	}
	if _, err := w.claims.ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(0x1, 1), ClaimId: first.GetClaimId()}); err != nil {
		t.Errorf("release: %v", err)
	}
	if n := w.liveClaims(); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// unreadBody is a body that nobody may read.
type unreadBody struct{ t *testing.T }

func (b unreadBody) Read([]byte) (int, error) {
	b.t.Error("the body of a refused request was read")
	return 0, errors.New("not for reading")
}

func TestAdmission_RESTLaneIsFull_RefusedBeforeTheBodyIsRead(t *testing.T) {
	w := start(t, fleet(1, 1), func(c *Config) { c.MaxInFlight = 1 })
	w.occupied()
	rec := httptest.NewRecorder()
	w.rest.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/select_destinations", unreadBody{t}))
	if p := problemOf(t, rec); rec.Code != http.StatusTooManyRequests || p.Reason != fault.Overloaded || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %+v, Retry-After %q", rec.Code, p, rec.Header().Get("Retry-After"))
	}
}

// A REST request takes one place in the queue, and none for the gRPC call that it becomes.
func TestAdmission_RESTRequest_TakesOnePlace(t *testing.T) {
	w := start(t, fleet(1, 1), func(c *Config) { c.MaxInFlight = 1 })
	if rec := w.send(http.MethodPost, "/v1/select_destinations", fmt.Sprintf(restBody, testUUID(0x1, 1))); rec.Code != http.StatusOK {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if s := w.g.queues.selections.State(); s.Taken != 0 {
		t.Errorf("%d places are left", s.Taken)
	}
}

func TestAdmission_ForgedPlace_IsRefused(t *testing.T) {
	w := start(t, fleet(1, 1), func(c *Config) { c.MaxInFlight = 1 })
	w.occupied()
	ctx := metadata.AppendToOutgoingContext(t.Context(), placeHeader, "mine")
	_, err := w.scheduler.SelectDestinations(ctx, ask(1, 1))
	if fault.KindOf(rpc.FromStatus(err)) != fault.Overloaded {
		t.Errorf("%v", err)
	}
}

// Once the gateway knows how long selections take, it refuses a selection whose deadline is nearer, and asks no cell.
func TestAdmission_HopelessDeadline_NoCellIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(1, 90), nil)
		var asked atomic.Int32
		w.cells[0].hook(func(_ context.Context, method string, _ any) error {
			if method == "ProposeBatch" {
				asked.Add(1)
				time.Sleep(100 * time.Millisecond) // virtual
			}
			return nil
		}, nil)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { w.choose(ask(i, 1)) })
		}
		all.Wait()
		before := asked.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Millisecond)
		defer cancel()
		_, err := w.scheduler.SelectDestinations(ctx, ask(100, 1))
		var e *fault.Error
		if !errors.As(rpc.FromStatus(err), &e) || e.Kind != fault.Overloaded || e.RetryAfter <= 0 {
			t.Errorf("%v", err)
		}
		if n := asked.Load(); n != before {
			t.Errorf("the cell was asked %d times for it", n-before)
		}
	})
}

func TestCallerOf_IdentityAddressProject_ShareByThem(t *testing.T) {
	known := security.With(t.Context(), &security.Identity{Role: security.Conductor, Name: "c1"})
	for _, tt := range []struct {
		ctx     context.Context
		project []string
		want    admission.Caller
	}{
		{ctx: t.Context(), want: admission.Caller{Name: "192.0.2.1", Part: "192.0.2.1:5000"}},
		{ctx: known, want: admission.Caller{Name: "conductor c1", Part: "192.0.2.1:5000"}},
		{ctx: known, project: []string{"p1"}, want: admission.Caller{Name: "conductor c1", Part: "project p1"}},
	} {
		if got := callerOf(tt.ctx, "192.0.2.1:5000", tt.project); got != tt.want {
			t.Errorf("%+v, not %+v", got, tt.want)
		}
	}
}

func TestAnswerInTime_DeadlinePassed_HidesWhatLacksCells(t *testing.T) {
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	contended := fault.New(fault.Contended, "all attempts lost")
	for _, c := range []struct {
		name      string
		ctx       context.Context
		err, want error
	}{
		{"an answer in time", t.Context(), nil, nil},
		{"an answer too late", late, nil, context.DeadlineExceeded},
		{"a cell is blamed too late", late, fault.New(fault.CellUnavailable, "no answer"), context.DeadlineExceeded},
		{"another refusal", late, contended, contended},
	} {
		if _, err := answerInTime(c.ctx, nil, nil, func(context.Context, any) (any, error) { return nil, c.err }); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}
