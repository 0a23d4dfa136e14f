package systemtest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"cellgate/cell/agents"
	"cellgate/internal/fault"
	"cellgate/internal/norace"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// lostAt is where the connection of an agent's stream breaks, once.
type lostAt string

const (
	// noLoss: the connection does not break.
	noLoss lostAt = "nothing"
	// lostOffer: the agent does not get the claim. lostVerdict: the cell does not get the verdict.
	// takenVerdict: the cell has got the verdict.
	lostOffer    lostAt = "offer"
	lostVerdict  lostAt = "verdict before it is taken"
	takenVerdict lostAt = "verdict after it is taken"
)

// breaking breaks one stream once, at the first message of the kind that at names.
type breaking struct {
	at   lostAt
	mu   sync.Mutex
	lost bool
}

// option must precede the interceptors of rpc.Dial, which receive messages that are not decoded
// yet.
func (b *breaking) option() grpc.DialOption {
	return grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return breakingStream{s, b}, nil
	})
}

// breaks reports whether the connection breaks at this message. It returns true at most once.
func (b *breaking) breaks(at lostAt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost || b.at != at {
		return false
	}
	b.lost = true
	return true
}

func (b *breaking) broke() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

var errBroke = fault.New(fault.CellUnavailable, "the connection broke")

type breakingStream struct {
	grpc.ClientStream
	b *breaking
}

func (s breakingStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if in, ok := m.(*agentv1.ReportResponse); ok && in.GetClaimOffer() != nil && s.b.breaks(lostOffer) {
		return errBroke
	}
	return nil
}

func (s breakingStream) SendMsg(m any) error {
	if out, ok := m.(*agentv1.ReportRequest); !ok || out.GetVerdict() == nil {
		return s.ClientStream.SendMsg(m)
	}
	if s.b.breaks(lostVerdict) {
		return errBroke
	}
	err := s.ClientStream.SendMsg(m)
	if err == nil && s.b.breaks(takenVerdict) {
		time.Sleep(time.Millisecond) // on the bubble's clock: the cell finishes its work
		return errBroke
	}
	return err
}

// An offer or a verdict that is lost is repeated on the next stream. A claim that its host cannot
// hold is not confirmed; one that fits is. No claim is left over in the shard or in the host's
// ledger.
func TestLostOffersAndVerdicts(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	for _, mode := range []agents.VerifyMode{agents.VerifyAsync, agents.VerifySync} {
		for _, at := range []lostAt{noLoss, lostOffer, lostVerdict, takenVerdict} {
			for what, full := range map[string]bool{"rejected": true, "fine": false} {
				t.Run(string(mode)+" "+what+" lost "+string(at), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { loseOne(t, mode, at, full) })
				})
			}
		}
	}
}

func loseOne(t *testing.T, mode agents.VerifyMode, at lostAt, full bool) {
	b := &breaking{at: at}
	d := drift(t, verifying{mode: mode, streams: []grpc.DialOption{b.option()}})
	if !full {
		d.giveBack()
	}
	got := d.selects(d.build)[0]
	time.Sleep(30 * time.Second) // the stream is connected again
	if b.broke() != (at != noLoss) {
		t.Fatalf("a connection broke: %v", b.broke())
	}
	// In sync mode, a verdict that reached the cell makes the request choose another host. A lost
	// verdict may still come in time on the next stream.
	passed := got.GetServiceHost() != d.state.GetServiceHost()
	may := full && mode == agents.VerifySync
	must := may && (at == noLoss || at == takenVerdict)
	if passed && !may || !passed && must {
		t.Fatalf("selected %v", got)
	}
	want := 1
	if full && !passed {
		d.rejects(got)
		want = 0
	} else {
		d.confirms(uuidOf(0x1, 1), got)
	}
	held := d.settle().claims
	if len(held) != want || want == 1 && held[got.GetClaimId()] == nil {
		t.Errorf("held: %v", held)
	}
	booked := 0
	for _, h := range d.hosts {
		for _, c := range h.Claims().List() {
			if booked++; c.GetClaimId() != got.GetClaimId() || !c.GetConfirmed() || c.GetState() != agentv1.HostClaim_HELD {
				t.Errorf("in the book: %v", c)
			}
		}
	}
	if booked != want {
		t.Errorf("%d claims are in the books of hosts, want %d", booked, want)
	}
}
