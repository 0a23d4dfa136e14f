package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// asOverloadClient makes the test binary a load client. A gRPC client uses more CPU time for a
// refused call than the gateway does, and would measure its own queue. This client writes frames
// that are encoded once, and reads no more than it must.
const asOverloadClient = "CELLGATE_TEST_BINARY_IS_AN_OVERLOAD_CLIENT"

const (
	// overloadDeadline is the deadline of every call. The headers carry it as grpc-timeout.
	overloadDeadline = 2 * time.Second
	// overloadTick is how often a connection sends the calls that are due. A call that cannot be
	// sent within overloadLate is counted but not sent: the client has no queue.
	overloadTick, overloadLate = 2 * time.Millisecond, 20 * time.Millisecond
	// overloadStreams is the most calls in flight on a connection.
	overloadStreams = 4000
	// overloadTexts is how many different errors of releases a connection counts.
	overloadTexts = 3
)

// overloadLoad is a client's load. Each caller has a connection to each gateway. The steps run one
// after the other, over all connections. Every selection that is answered is released.
type overloadLoad struct {
	Addrs []string `json:"addrs"`
	// From are the addresses of the callers.
	From  []string       `json:"from"`
	Steps []overloadStep `json:"steps"`
}

// overloadStep offers Rate selections per second, whether earlier ones are answered or not. With
// AtOnce, it keeps that many in flight, and sends each after the answer to another.
type overloadStep struct {
	Rate   float64       `json:"rate"`
	AtOnce int           `json:"at_once"`
	For    time.Duration `json:"for"`
}

// overloadResult is the result of a step.
type overloadResult struct {
	Sent, NotSent int
	// Selections by the kind of their errors, "" for an answer.
	Selections map[fault.Kind]*overloadCalls
	// Releases that failed, by error.
	Releases map[string]int
	// WithoutRetry are refusals without RetryInfo.
	WithoutRetry int
}

// overloadCalls are calls that ended the same way. The times are in ms.
type overloadCalls struct {
	N        int
	P50, P99 float64
	// Last is when the last of them was sent, counted from the start of the step.
	Last time.Duration
	took []time.Duration
}

// overloadClientMain sends the load that is in the environment and prints the results of its
// steps.
func overloadClientMain(config string) error {
	var load overloadLoad
	if err := json.Unmarshal([]byte(config), &load); err != nil {
		return err
	}
	var conns []*overloadConn
	for _, from := range load.From {
		for _, addr := range load.Addrs {
			c, err := dialOverload(from, addr)
			if err != nil {
				return err
			}
			conns = append(conns, c)
		}
	}
	var out []*overloadResult
	for _, step := range load.Steps {
		share := step
		share.Rate, share.AtOnce = step.Rate/float64(len(conns)), step.AtOnce/len(conns)
		var all sync.WaitGroup
		for i, c := range conns {
			var offset time.Duration
			if step.Rate > 0 { // so that connections do not send at the same time
				offset = time.Duration(float64(time.Second) / step.Rate * float64(i))
			}
			all.Go(func() { c.send(share, offset) })
		}
		all.Wait()
		out = append(out, newOverloadResult())
	}
	for _, c := range conns {
		if err := c.closeConn(); err != nil {
			return err
		}
		for i := range c.results {
			c.results[i].addTo(out[i])
		}
	}
	for _, r := range out {
		for _, calls := range r.Selections {
			slices.Sort(calls.took)
			at := func(percent int) float64 {
				return float64(calls.took[len(calls.took)*percent/100].Microseconds()) / 1000
			}
			calls.P50, calls.P99 = at(50), at(99)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func newOverloadResult() *overloadResult {
	return &overloadResult{Selections: map[fault.Kind]*overloadCalls{}, Releases: map[string]int{}}
}

func (r *overloadResult) addTo(sum *overloadResult) {
	sum.Sent += r.Sent
	sum.NotSent += r.NotSent
	sum.WithoutRetry += r.WithoutRetry
	for text, n := range r.Releases {
		sum.Releases[text] += n
	}
	for kind, calls := range r.Selections {
		of := sum.Selections[kind]
		if of == nil {
			of = &overloadCalls{}
			sum.Selections[kind] = of
		}
		of.N += calls.N
		of.Last = max(of.Last, calls.Last)
		of.took = append(of.took, calls.took...)
	}
}

// overloadCall is a call in flight.
type overloadCall struct {
	of      *overloadResult
	release bool
	// sent is when its frames were passed to the kernel, counted from the start of the step.
	sent time.Time
	at   time.Duration
	body []byte
}

// overloadConn is one connection of a caller.
type overloadConn struct {
	c      net.Conn
	body   []byte // of a selection; uuidAt is where its uuid is replaced
	uuidAt int
	wake   chan struct{}
	done   chan error // of the reader

	out []byte // of flush

	mu       sync.Mutex
	results  []*overloadResult
	w        bytes.Buffer  // bytes that the sender passes to the kernel next
	fr       *http2.Framer // writes to w
	block    bytes.Buffer
	enc      *hpack.Encoder // writes to block
	next     uint32
	calls    map[uint32]*overloadCall
	order    []uint32 // stream ids, in the order of sending
	pending  int      // selections among calls
	releases [][]byte
	window   int
}

func dialOverload(from, addr string) (*overloadConn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	body, err := proto.Marshal(&cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{id},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			ProjectId: "overload", Flavor: &cellgatev1.Flavor{Vcpus: 2, MemoryMb: 4096, RootGb: 40},
		}},
		ClaimTtl: durationpb.New(time.Hour),
	})
	if err != nil {
		return nil, err
	}
	c := &overloadConn{
		c: conn, body: body, uuidAt: bytes.Index(body, []byte(id)), wake: make(chan struct{}, 1), done: make(chan error, 1),
		next: 1, calls: map[uint32]*overloadCall{}, window: 64<<10 - 1,
	}
	c.fr, c.enc = http2.NewFramer(&c.w, nil), hpack.NewEncoder(&c.block)
	c.w.WriteString(http2.ClientPreface)
	// These windows are large enough for all answers.
	if err := cmp.Or(c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}), c.fr.WriteWindowUpdate(0, 1<<30)); err != nil {
		return nil, err
	}
	go func() { c.done <- c.read() }()
	return c, nil
}

// flush passes the written bytes to the kernel. The reader does not wait for it.
func (c *overloadConn) flush() error {
	c.mu.Lock()
	c.out = append(c.out[:0], c.w.Bytes()...)
	c.w.Reset()
	c.mu.Unlock()
	_, err := c.c.Write(c.out)
	return err
}

// send sends a step.
func (c *overloadConn) send(step overloadStep, offset time.Duration) {
	c.mu.Lock()
	r := newOverloadResult()
	c.results = append(c.results, r)
	c.mu.Unlock()
	tick := time.NewTicker(overloadTick)
	defer tick.Stop()
	began, due := time.Now().Add(offset), 0
	for {
		select {
		case <-tick.C:
		case <-c.wake:
		}
		now := time.Now()
		if now.Sub(began) > step.For {
			return
		}
		c.mu.Lock()
		c.expire(now)
		for ; len(c.releases) > 0; c.releases = c.releases[1:] {
			c.begin(overloadCall{of: r, release: true, sent: now, body: c.releases[0]})
		}
		late := max(0, int((now.Sub(began)-overloadLate).Seconds()*step.Rate)-due)
		r.NotSent += late
		due += late
		for ; step.AtOnce == 0 && due < int(now.Sub(began).Seconds()*step.Rate); due++ {
			c.selection(r, now, now.Sub(began))
		}
		for c.pending < step.AtOnce {
			c.selection(r, now, now.Sub(began))
		}
		c.mu.Unlock()
		if c.flush() != nil {
			return // the reader reports the error
		}
	}
}

func (c *overloadConn) selection(r *overloadResult, now time.Time, at time.Duration) {
	if len(c.calls) >= overloadStreams || c.window < len(c.body)+5 {
		r.NotSent++
		return
	}
	copy(c.body[c.uuidAt:], uuid.NewString())
	r.Sent++
	c.pending++
	c.begin(overloadCall{of: r, sent: now, at: at, body: c.body})
}

// begin writes the frames of a call. The caller has the lock.
func (c *overloadConn) begin(call overloadCall) {
	path := cellgatev1.Scheduler_SelectDestinations_FullMethodName
	if call.release {
		path = cellgatev1.Claims_ReleaseClaim_FullMethodName
	}
	c.block.Reset()
	for _, h := range [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: "gateway"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "grpc-timeout", Value: fmt.Sprintf("%dm", overloadDeadline.Milliseconds())},
	} {
		_ = c.enc.WriteField(h) // to a buffer, as all that fr writes
	}
	_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: c.block.Bytes(), EndHeaders: true})
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(call.body)))
	message = append(message, call.body...)
	_ = c.fr.WriteData(c.next, true, message)
	c.window -= len(message)
	call.body = nil
	c.calls[c.next] = &call
	c.order = append(c.order, c.next)
	c.next += 2
}

// expire ends the calls whose deadline has passed. The caller has the lock.
func (c *overloadConn) expire(now time.Time) {
	for len(c.order) > 0 {
		id := c.order[0]
		if call := c.calls[id]; call != nil {
			if now.Sub(call.sent) < overloadDeadline {
				return
			}
			_ = c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			c.ended(id, call, now, "DEADLINE_EXCEEDED", "no answer within the deadline")
		}
		c.order = c.order[1:]
	}
}

// ended counts a call. The caller has the lock.
func (c *overloadConn) ended(id uint32, call *overloadCall, now time.Time, kind fault.Kind, text string) {
	delete(c.calls, id)
	if call.release {
		if kind != "" {
			r := call.of.Releases
			if len(r) >= overloadTexts {
				text = "and others"
			}
			r[string(kind)+" "+text]++
		}
		return
	}
	c.pending--
	of := call.of.Selections[kind]
	if of == nil {
		of = &overloadCalls{}
		call.of.Selections[kind] = of
	}
	of.N++
	of.Last = max(of.Last, call.at)
	of.took = append(of.took, now.Sub(call.sent))
}

// read follows what the gateway sends until the connection is closed.
func (c *overloadConn) read() error {
	fr := http2.NewFramer(nil, bufio.NewReaderSize(c.c, 256<<10))
	fr.SetReuseFrames()
	var code, details string
	dec := hpack.NewDecoder(4096, func(h hpack.HeaderField) {
		switch h.Name {
		case "grpc-status":
			code = h.Value
		case "grpc-status-details-bin":
			details = h.Value
		}
	})
	faults := map[string]*fault.Error{} // by details: most refusals are equal
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return err
		}
		now := time.Now()
		c.mu.Lock()
		id := f.Header().StreamID
		call := c.calls[id]
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.fr.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.fr.WritePing(true, f.Data)
			}
		case *http2.WindowUpdateFrame:
			if id == 0 {
				c.window += int(f.Increment)
			}
		case *http2.DataFrame:
			if call != nil {
				call.body = append(call.body, f.Data()...)
			}
		case *http2.RSTStreamFrame:
			if call != nil {
				c.ended(id, call, now, "RESET", f.ErrCode.String())
			}
		case *http2.GoAwayFrame:
			c.mu.Unlock()
			return fmt.Errorf("the gateway closes the connection: %v %s", f.ErrCode, f.DebugData())
		case *http2.HeadersFrame:
			code, details = "", ""
			if _, err := dec.Write(f.HeaderBlockFragment()); err != nil {
				c.mu.Unlock()
				return err
			}
			if call == nil || !f.StreamEnded() {
				break
			}
			e := &fault.Error{}
			if code != "0" {
				if e = faults[code+details]; e == nil {
					e = faultOf(code, details)
					faults[code+details] = e
				}
				if e.Kind == fault.Overloaded && e.RetryAfter == 0 {
					call.of.WithoutRetry++
				}
			} else if !call.release {
				c.releases = append(c.releases, releasesOf(call.body)...)
			}
			c.ended(id, call, now, e.Kind, e.Message)
			select {
			case c.wake <- struct{}{}:
			default:
			}
		}
		c.mu.Unlock()
	}
}

func faultOf(code, details string) *fault.Error {
	e := &fault.Error{Kind: fault.Kind("CODE_" + code)}
	b, err := base64.RawStdEncoding.DecodeString(details)
	s := &spb.Status{}
	if err != nil || len(b) == 0 || proto.Unmarshal(b, s) != nil {
		return e
	}
	if got, ok := rpc.FromStatus(status.ErrorProto(s)).(*fault.Error); ok {
		return got
	}
	return e
}

// releasesOf returns the requests that release the claims of an answer.
func releasesOf(message []byte) (out [][]byte) {
	var resp cellgatev1.SelectDestinationsResponse
	if len(message) < 5 || proto.Unmarshal(message[5:], &resp) != nil {
		return nil
	}
	for _, d := range resp.GetDestinations() {
		b, err := proto.Marshal(&cellgatev1.ReleaseClaimRequest{
			ConsumerUuid: d.GetInstanceUuid(), ClaimId: d.GetSelected().GetClaimId(), Cell: d.GetSelected().GetCell(),
		})
		if err == nil {
			out = append(out, b)
		}
	}
	return out
}

// closeConn waits for the calls that are under way, and closes the connection. The error is of a
// connection that was lost before.
func (c *overloadConn) closeConn() error {
	c.send(overloadStep{For: overloadDeadline + 100*time.Millisecond}, 0)
	last := c.results[len(c.results)-1]
	c.results = c.results[:len(c.results)-1]
	maps.Copy(c.results[len(c.results)-1].Releases, last.Releases)
	select {
	case err := <-c.done:
		return err
	default:
	}
	if err := c.c.Close(); err != nil {
		return err
	}
	<-c.done
	return nil
}

// calls are the selections that ended with a kind.
func (r *overloadResult) calls(kind fault.Kind) *overloadCalls {
	if r == nil || r.Selections[kind] == nil {
		return &overloadCalls{}
	}
	return r.Selections[kind]
}

// others counts the selections that were neither answered nor refused.
func (r *overloadResult) others() string {
	var out []string
	for kind, c := range r.Selections {
		if kind != "" && kind != fault.Overloaded {
			out = append(out, fmt.Sprintf("%s %d", kind, c.N))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func sumOf(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}
