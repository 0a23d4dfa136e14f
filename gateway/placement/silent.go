package placement

import (
	"context"
	"slices"
	"sync"
)

// silentCells are the cells that did not answer, and without which a request was answered.
type silentCells struct {
	mu    sync.Mutex
	names []string
}

type silentKey struct{}

// SilentHeader names the cells that an answer lacks, one in each value.
const SilentHeader = "Cellgate-Silent-Cell"

// withSilent makes a context that collects the cells that NoteSilentCell names.
func withSilent(ctx context.Context) (context.Context, *silentCells) {
	s := &silentCells{}
	return context.WithValue(ctx, silentKey{}, s), s
}

// NoteSilentCell records that a request is answered without a silent cell. A Backend calls it with the request's
// context before it returns.
func NoteSilentCell(ctx context.Context, cell string) {
	s, ok := ctx.Value(silentKey{}).(*silentCells)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.names, cell) {
		s.names = append(s.names, cell)
	}
}

// list gives the names, sorted.
func (s *silentCells) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.names))
}
