package security

import (
	"context"
	"io"
	"strings"
	"syscall"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/throttle"
)

// logInterval is the interval between log lines about refusals of one sort; each line counts those since
// the last.
const logInterval = 10 * time.Second

// refusals counts refusals and logs some of them, without secrets.
type refusals struct {
	log *throttle.Log
	// count is ServerConfig.OnRefused.
	count func(method string, kind fault.Kind)
}

// handshake stands for connections that ended before a call, otherMethods for methods without a row.
const (
	handshake    = "TLS handshake"
	otherMethods = "another method"
)

// add counts a refusal. who may be nil. A connection that its caller closed before the handshake, as the
// health checks of load balancers do, is none.
func (r *refusals) add(ctx context.Context, method, from string, who *Identity, err error) {
	if why := err.Error(); method == handshake && (why == io.EOF.Error() || strings.HasSuffix(why, syscall.ECONNRESET.Error())) {
		return
	}
	if _, known := access[method]; !known && method != handshake && method != "/v1/" && method != "/" {
		method = otherMethods
	}
	kind := fault.Unauthenticated
	if fault.KindOf(err) == fault.PermissionDenied {
		kind = fault.PermissionDenied
	}
	if r.count != nil {
		r.count(method, kind)
	}
	attrs := []any{"method", method, "from", from}
	if who != nil {
		attrs = append(attrs, "role", string(who.Role), "name", who.Name)
	}
	r.log.Warn(ctx, method+" "+string(kind), 1, "a caller was refused", append(attrs, "err", err)...)
}
