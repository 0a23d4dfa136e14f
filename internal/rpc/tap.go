package rpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"cellgate/internal/fault"
)

// A TapHandle decides about a call once its headers arrived: before a stream exists, and before the
// server keeps any of the body. It returns the context of the call, or an error that refuses the call;
// a *fault.Error reaches the caller with its details. It runs in the goroutine that reads the
// connection, one call at a time, so it must not block.
type TapHandle func(ctx context.Context, info *tap.Info) (context.Context, error)

// Tap adds a handle to a server. Handles are called in the order of the options, each with the context
// of the one before. The first error refuses the call.
func Tap(handle TapHandle) grpc.ServerOption { return tapOption{handle: handle} }

type tapOption struct {
	grpc.EmptyServerOption
	handle TapHandle
}

// refusal is an error with its wire form. Building that takes longer than the rest of a refusal. So a
// server keeps the last one: handles that refuse many calls return the same error.
type refusal struct {
	err    *fault.Error
	status error
}

// refusedLater is the longest deadline of a call that is refused without a stream. gRPC keeps the timer
// of such a call until the deadline, so callers with far deadlines could fill the memory with timers.
// Calls with a later deadline get a stream. It is refused before its body is read, and its timer ends
// with it.
const refusedLater = 5 * time.Second

// refusalKey is the context key of the error of a call that is refused on its stream.
type refusalKey struct{}

// refusalOf returns why a call must be refused before its body is read; nil if it need not be.
func refusalOf(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// inTapHandle combines the handles of options into the one that gRPC accepts.
func inTapHandle(options []grpc.ServerOption) grpc.ServerOption {
	handles := []TapHandle{judgeRelease}
	for _, o := range options {
		if t, ok := o.(tapOption); ok {
			handles = append(handles, t.handle)
		}
	}
	var last atomic.Pointer[refusal]
	return grpc.InTapHandle(func(ctx context.Context, info *tap.Info) (context.Context, error) {
		for _, handle := range handles {
			next, err := handle(ctx, info)
			if err == nil {
				ctx = next
				continue
			}
			if end, ok := ctx.Deadline(); ok && time.Until(end) > refusedLater {
				return context.WithValue(ctx, refusalKey{}, err), nil
			}
			e, ok := err.(*fault.Error)
			if !ok {
				return ctx, ToStatus(err).Err()
			}
			known := last.Load()
			if known == nil || known.err != e {
				known = &refusal{e, ToStatus(e).Err()}
				last.Store(known)
			}
			return ctx, known.status
		}
		return ctx, nil
	})
}
