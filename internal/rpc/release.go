package rpc

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/tap"

	"cellgate/internal/fault"
)

// release numbers the releases of cellgate by their internal protocol: each release that extends it has
// the next number. Programs of neighbouring releases work together. It is a text, because a test sets
// it with the linker's -X.
var release = "1"

// agentProduct begins the User-Agent that Dial sends with each call: cellgate/RELEASE.
const agentProduct = "cellgate/"

// inner are the services between programs of cellgate. The public API is not among them: its package
// has its own version.
var inner = []string{"/cellgate.cell.", "/cellgate.agent."}

// judgeRelease refuses a call to an inner service by a program whose release is not a neighbour of this
// one's. Callers that are not programs of cellgate name no release, and pass.
func judgeRelease(ctx context.Context, info *tap.Info) (context.Context, error) {
	for _, prefix := range inner {
		if !strings.HasPrefix(info.FullMethodName, prefix) {
			continue
		}
		for _, agent := range info.Header["user-agent"] {
			if err := refuseRelease(agent); err != nil {
				return ctx, err
			}
		}
	}
	return ctx, nil
}

func refuseRelease(userAgent string) error {
	rest, ok := strings.CutPrefix(userAgent, agentProduct)
	if !ok {
		return nil
	}
	number, _, _ := strings.Cut(rest, " ")
	if number == release {
		return nil
	}
	theirs, err := strconv.Atoi(number)
	if err != nil {
		return fault.Invalid("user-agent", "%q names no release of cellgate: it is %sN", userAgent, agentProduct)
	}
	ours, err := strconv.Atoi(release)
	if err != nil {
		panic("rpc: release " + release)
	}
	if theirs >= ours-1 && theirs <= ours+1 {
		return nil
	}
	return &fault.Error{Kind: fault.CellUnavailable, Message: fmt.Sprintf(
		"the caller is of release %d, the cell of release %d: neighbouring releases work together, so upgrade one release at a time", theirs, ours)}
}
