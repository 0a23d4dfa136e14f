package rpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"cellgate/internal/fault"
)

// A TapHandle decides about a call once its headers are there: before a stream exists, and
// before the server keeps anything of the body. It gives the context of the call, or an
// error that refuses the call; a *fault.Error reaches the caller with its details. It runs
// in the goroutine that reads the connection, one call at a time: it must not block.
type TapHandle func(ctx context.Context, info *tap.Info) (context.Context, error)

// Tap adds a handle to a server. Handles are asked in the order of the options, each with
// the context of the one before; the first error ends it.
func Tap(handle TapHandle) grpc.ServerOption { return tapOption{handle: handle} }

type tapOption struct {
	grpc.EmptyServerOption
	handle TapHandle
}

// refusal is an error with its wire form. Making that takes longer than all else of a refusal:
// a server keeps the last one, since handles that refuse many calls do so with one error.
type refusal struct {
	err    *fault.Error
	status error
}

// refusedLater is the longest deadline of a call that is refused without a stream. gRPC keeps
// the timer of such a call until the deadline: callers with far deadlines could fill the
// memory with them. Calls with a later deadline get a stream, which is refused before
// its body is read, and ends with its timer.
const refusedLater = 5 * time.Second

// refusalKey is the context key of the error of a call that is refused on its stream.
type refusalKey struct{}

// refusalOf gives why a call is refused before anything of its body is read; nil when it is
// not.
func refusalOf(ctx context.Context) error {
	err, _ := ctx.Value(refusalKey{}).(error)
	return err
}

// inTapHandle makes the one handle that gRPC takes of all handles in options.
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
