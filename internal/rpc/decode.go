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

// Limits of a message, which are checked on its bytes: an empty element of a list takes two
// of them, and hundreds once it is decoded.
const (
	maxElements = 1 << 19
	maxNesting  = 256
	// unchecked is the size of a message, in bytes, that cannot cost much.
	unchecked = 4 << 10
)

// Bounded makes a server share an Ingress with others of its process.
func Bounded(in *ingress.Ingress) grpc.ServerOption { return bounded{in: in} }

type bounded struct {
	grpc.EmptyServerOption
	in *ingress.Ingress
}

// request is a message that is about to be received. It is decoded once gRPC has returned: gRPC would
// answer an error of its codec by itself, as INTERNAL, and needs half of the stack of decodeAside.
type request struct {
	received
	ctx  context.Context
	in   *ingress.Ingress
	into any
	// what is how an error calls the message.
	what string
	// charges are the call's.
	charges *charges
	// turns, of a stream's message, has a place for each that may be decoded at once.
	turns chan struct{}
}

// charges are what a call's messages were charged, until they are released. Safe for
// concurrent use: a handler may end while a goroutine of it still receives. The zero value is
// ready.
type charges struct {
	mu       sync.Mutex
	releases []func()
	ended    bool
}

// add keeps what a charge returned; it returns its error.
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

// release gives back all that was charged so far.
func (c *charges) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, release := range c.releases {
		release()
	}
	c.releases = nil
}

// refund releases, also what is charged from now on: the call is over.
func (c *charges) refund() {
	c.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// received is a message as gRPC received it. Who decodes it frees it.
type received struct{ data mem.BufferSlice }

// keep takes the bytes of a message from gRPC.
func (r *received) keep(data mem.BufferSlice) {
	data.Ref()
	r.data = data
}

var protobuf = encoding.GetCodecV2(protocodec.Name)

// deferring is the protobuf codec, apart from messages that are decoded later.
type deferring struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return deferring{protobuf} }

func (c deferring) Unmarshal(data mem.BufferSlice, v any) error {
	if later, ok := v.(interface{ keep(mem.BufferSlice) }); ok {
		later.keep(data)
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// shallow is the size of a message, in bytes, that takes little stack to decode.
const shallow = 256

// decodeAside decodes a message of a stream, a large one on a goroutine of its own: the stack that
// it takes would stay with the stream's goroutine, of which a cell has one a host.
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
		// A call from this process was admitted where its request came in: it must not wait
		// for itself.
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

// countElements counts texts and messages in the bytes of a message. It refuses too many, and
// messages within messages too deep, by the name of the field at the top.
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

// count adds the elements of a message to n until those are too many. It is false when the
// message nests too deep. top is the field of the outermost message that it is in. What is no
// message at all ends it: decoding says so.
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
