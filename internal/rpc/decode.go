package rpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
)

// Limits of a message, checked on its bytes: an empty element of a list takes two bytes, but hundreds
// once decoded.
const (
	maxElements = 1 << 19
	maxNesting  = 256
	// unchecked is the size, in bytes, up to which a message cannot cost much.
	unchecked = 4 << 10
)

// Bounded makes a server share an Ingress with others of its process.
func Bounded(in *ingress.Ingress) grpc.ServerOption { return bounded{in: in} }

type bounded struct {
	grpc.EmptyServerOption
	in *ingress.Ingress
}

// request is a message that is about to be received. It is decoded after gRPC has returned: gRPC would
// itself answer an error of its codec, as INTERNAL, and its frames would take half of decodeAside's
// stack.
type request struct {
	received
	ctx  context.Context
	in   *ingress.Ingress
	into any
	// what names the message in errors.
	what string
	// charges are those of the call.
	charges *charges
	// turns, for a message of a stream, has a slot for each message that may be decoded at once.
	turns chan struct{}
}

// charges are the charges for a call's messages until they are released. Safe for concurrent use: a
// handler may end while one of its goroutines still receives. The zero value is ready.
type charges struct {
	mu       sync.Mutex
	releases []func()
	ended    bool
}

// add keeps the release function of a charge, and returns its error.
func (c *charges) add(release func(), err error) error {
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		release()
		return nil
	}
	c.releases = append(c.releases, release)
	return nil
}

// release releases everything charged so far.
func (c *charges) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, release := range c.releases {
		release()
	}
	c.releases = nil
}

// refund releases everything, including later charges: the call is over.
func (c *charges) refund() {
	c.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// received is a message as gRPC received it. Its decoder must free it.
type received struct{ data mem.BufferSlice }

// keep takes over the bytes of a message from gRPC.
func (r *received) keep(data mem.BufferSlice) {
	data.Ref()
	r.data = data
}

var protobuf = encoding.GetCodecV2(protocodec.Name)

// deferring is the protobuf codec, except that it leaves some messages to be decoded later.
type deferring struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return deferring{protobuf} }

func (c deferring) Unmarshal(data mem.BufferSlice, v any) error {
	if later, ok := v.(interface{ keep(mem.BufferSlice) }); ok {
		later.keep(data)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// shallow is the size, in bytes, up to which a message needs little stack to decode.
const shallow = 256

// decodeAside decodes a message of a stream. It decodes a large one on a separate goroutine: otherwise
// the stack that it needs would stay with the stream's goroutine, of which a cell has one for each
// host.
func (r *request) decodeAside() error {
	if r.data.Len() <= shallow {
		return r.decode()
	}
	done := make(chan error, 1)
	go func() { done <- r.decode() }()
	return <-done
}

// decode checks the bytes of a request before it decodes them.
func (r *request) decode() error {
	defer func() { r.data.Free() }()
	size := r.data.Len()
	if size > MaxMessageBytes {
		return fault.Invalid(r.what, "is %d bytes; the limit is %d", size, MaxMessageBytes)
	}
	if m, ok := r.into.(proto.Message); ok && size > unchecked {
		from, _ := peer.FromContext(r.ctx)
		if from != nil {
			if err := r.charges.add(ingress.Claim(from.Addr, int64(size))); err != nil {
				return err
			}
		}
		whole := r.data.MaterializeToBuffer(mem.DefaultBufferPool())
		r.data.Free()
		r.data = mem.BufferSlice{whole}
		n, err := countElements(whole.ReadOnlyData(), m.ProtoReflect().Descriptor())
		if err != nil {
			return err
		}
		// A call from this process was admitted as a request before: waiting here could wait for
		// itself.
		if from == nil || from.AuthInfo == nil || from.AuthInfo.AuthType() != MemoryAuth {
			if err := r.charges.add(r.in.Heavy(r.ctx, int64(size+n*ingress.ElementCost))); err != nil {
				return err
			}
		}
	}
	if r.turns != nil {
		select {
		case r.turns <- struct{}{}:
			defer func() { <-r.turns }()
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
	if err := protobuf.Unmarshal(r.data, r.into); err != nil {
		bad := fault.Invalid(r.what, "is no message of its type")
		bad.Cause = err
		return bad
	}
	return nil
}

// MemoryAuth is the AuthType of connections within the process.
const MemoryAuth = "memory"

// countElements counts texts and messages in the bytes of a message. It refuses too many elements, and
// too deep nesting, with the name of the top-level field.
func countElements(b []byte, m protoreflect.MessageDescriptor) (n int, err error) {
	top := ""
	if count(b, m, 0, &n, &top) {
		if n <= maxElements {
			return n, nil
		}
		return n, fault.Invalid(top, "with it the request has more than %d elements", maxElements)
	}
	return n, fault.Invalid(top, "nests more than %d messages", maxNesting)
}

// count adds the elements of a message to n until there are too many. It returns false if the message
// nests too deep. top is the top-level field being counted. Malformed bytes end the count: decoding
// reports them.
func count(b []byte, m protoreflect.MessageDescriptor, depth int, n *int, top *string) bool {
	if depth > maxNesting {
		return false
	}
	fields := m.Fields()
	for len(b) > 0 && *n <= maxElements {
		number, kind, k := protowire.ConsumeTag(b)
		if k < 0 {
			return true
		}
		b = b[k:]
		if k = protowire.ConsumeFieldValue(number, kind, b); k < 0 {
			return true
		}
		value := b[:k]
		b = b[k:]
		field := fields.ByNumber(number)
		if kind != protowire.BytesType || field == nil {
			continue
		}
		if depth == 0 {
			*top = string(field.Name())
		}
		*n++
		if within := field.Message(); within != nil {
			if value, k = protowire.ConsumeBytes(value); k < 0 || !count(value, within, depth+1, n, top) {
				return k < 0
			}
		}
	}
	return true
}
