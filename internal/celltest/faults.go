package celltest

import (
	"context"
	"path"
	"sync"

	"google.golang.org/grpc"
)

// Faults stand between the callers of a cell and the cell. They see each call once it is
// decoded. The zero value changes nothing.
type Faults struct {
	mu      sync.Mutex
	before  func(ctx context.Context, method string, req any) error
	instead func(method string, req any) (resp any, err error)
	alter   func(method string, req, resp any)
	after   func(method string, req any) error
}

// Hook has before see each call before the cell does, which may hold the call up, change it, or
// fail it with nothing done; and after see each call that the cell has done, which may hold up its
// answer or lose it. Nil does nothing.
func (f *Faults) Hook(before func(ctx context.Context, method string, req any) error, after func(method string, req any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// Instead has answer stand in for the cell in the calls for which it gives an answer or an error.
func (f *Faults) Instead(answer func(method string, req any) (resp any, err error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead = answer
}

// Alter has change write into the answers of the cell. Nil leaves them.
func (f *Faults) Alter(change func(method string, req, resp any)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alter = change
}

func (f *Faults) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	f.mu.Lock()
	before, instead := f.before, f.instead
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, method, req); err != nil {
			return nil, err
		}
	}
	if instead != nil {
		if resp, err := instead(method, req); resp != nil || err != nil {
			return resp, err
		}
	}
	resp, err := handle(ctx, req)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	alter, after := f.alter, f.after
	f.mu.Unlock()
	if alter != nil {
		alter(method, req, resp)
	}
	if after != nil {
		err = after(method, req)
	}
	return resp, err
}
