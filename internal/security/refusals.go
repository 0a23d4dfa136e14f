package security

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cellgate/internal/fault"
)

// tellEvery is how often refusals of one sort are logged; those between are
// counted in the next line.
const tellEvery = 10 * time.Second

// refusals counts what was refused and logs some of it, without secrets.
type refusals struct {
	log *slog.Logger
	mu  sync.Mutex
	all map[refusalSort]*refusalCount
}

// refusalSort is a method and a kind. Methods that do not exist are one.
type refusalSort struct {
	method string
	kind   fault.Kind
}

type refusalCount struct {
	n, untold uint64
	told      time.Time
}

// handshake stands for connections that did not come to a call, otherMethods for
// methods without a row.
const (
	handshake    = "TLS handshake"
	otherMethods = "another method"
)

// add counts a refusal. who may be nil.
func (r *refusals) add(ctx context.Context, method, from string, who *Identity, err error) {
	if _, known := access[method]; !known && method != handshake && method != "/v1/" && method != "/" {
		method = otherMethods
	}
	kind := fault.Unauthenticated
	if fault.KindOf(err) == fault.PermissionDenied {
		kind = fault.PermissionDenied
	}
	r.mu.Lock()
	if r.all == nil {
		r.all = map[refusalSort]*refusalCount{}
	}
	c := r.all[refusalSort{method, kind}]
	if c == nil {
		c = &refusalCount{}
		r.all[refusalSort{method, kind}] = c
	}
	c.n++
	c.untold++
	now := time.Now()
	tell := c.untold
	if now.Sub(c.told) < tellEvery {
		tell = 0
	} else {
		c.told, c.untold = now, 0
	}
	r.mu.Unlock()
	if tell > 0 {
		told := []any{"method", method, "from", from}
		if who != nil {
			told = append(told, "role", string(who.Role), "name", who.Name)
		}
		r.log.WarnContext(ctx, "a caller was refused", append(told, "err", err, "times", tell)...)
	}
}

// Refused gives, for metrics, how often calls of a method were refused with a kind.
func (s *Server) Refused(each func(method string, kind fault.Kind, n uint64)) {
	s.refused.mu.Lock()
	defer s.refused.mu.Unlock()
	for k, c := range s.refused.all {
		each(k.method, k.kind, c.n)
	}
}
