package celltest

import (
	"context"
	"path"
	"sync"

	"google.golang.org/grpc"
)

// Faults intercept the calls between callers and a cell, after they are decoded. The zero value changes
// nothing.
type Faults struct {
	mu      sync.Mutex
	before  func(ctx context.Context, method string, req any) error
	instead func(method string, req any) (resp any, err error)
	alter   func(method string, req, resp any)
	after   func(method string, req any) error
}

// Hook sets two interceptors; either may be nil. before sees each call before the cell does: it may
// delay or change the call, or fail it with nothing done. after sees each call that the cell has done:
// it may delay or drop the answer.
func (f *Faults) Hook(before func(ctx context.Context, method string, req any) error, after func(method string, req any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

// Instead makes answer replace the cell in the calls for which it returns an answer or an error.
func (f *Faults) Instead(answer func(method string, req any) (resp any, err error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead = answer
}

// Alter makes change modify the cell's answers; nil ends that.
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
