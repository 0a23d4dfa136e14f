package agents

import (
	"strings"
	"testing"
	"time"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// A message goes to the stream that began last. If all have ended, it goes nowhere. Sending does
// not wait for an agent that does not read.
func TestSessionsReachTheNewestStream(t *testing.T) {
	s := newStreams(0, time.Now)
	m := &agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimEnded{ClaimEnded: &agentv1.ClaimEnded{ClaimId: "c"}}}
	if s.HasStream("h") || s.Send("h", m) {
		t.Fatal("a host without a stream took a message")
	}
	// Their agents do not read.
	older := &stream{out: outbox{sending: true}}
	newer := &stream{out: outbox{sending: true}}
	s.add("h", older)
	s.add("h", newer)
	if !s.Send("h", m) || len(newer.out.waiting) != 1 || len(older.out.waiting) != 0 {
		t.Fatalf("the message is not with the newest stream: older %d, newer %d", len(older.out.waiting), len(newer.out.waiting))
	}
	for range maxOutbox - 1 {
		if !s.Send("h", m) {
			t.Fatal("an outbox with room took no message")
		}
	}
	if s.Send("h", m) {
		t.Fatal("a full outbox took a message")
	}
	s.remove("h", newer)
	if !s.Send("h", m) || len(older.out.waiting) != 1 {
		t.Fatal("the older stream did not get the message")
	}
	s.remove("h", older)
	if s.HasStream("h") || s.Send("h", m) || len(s.Hosts()) != 0 {
		t.Fatal("an ended stream is still there")
	}
}

// A panic ends only the stream whose message caused it.
func TestStream_HandlerPanics_StreamEndsWithInternal(t *testing.T) {
	a := &stream{ended: make(chan error, 1)}
	a.answer(func() (*agentv1.ReportResponse, error) { panic("broken") })
	if err := <-a.ended; fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "broken") {
		t.Errorf("ended with %v", err)
	}
	a.close(func() {})
}
