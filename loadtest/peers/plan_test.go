package peers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// order says which of the hosts with room a claim wants.
type order string

const (
	packFirst order = "pack-first" // the fullest
	spread    order = "spread"     // the emptiest; Nova's default
	random    order = "random"     // any
)

var (
	everyOrder  = []order{packFirst, spread, random}
	callerSteps = []int{1, 8}
)

// plan is what to measure.
type plan struct {
	// hosts ascend: each fleet contains the previous one.
	hosts  []int
	orders []order
	each   time.Duration
}

// readPlan reads PEERS_HOSTS, PEERS_ORDERS and PEERS_SECONDS.
func readPlan(env func(string) string) (p plan, err error) {
	for text := range strings.SplitSeq(cmp.Or(env("PEERS_HOSTS"), "100,200,400,800,10000"), ",") {
		n, failed := strconv.Atoi(strings.TrimSpace(text))
		if failed != nil || n < 1 || n > 100_000 {
			err = errors.Join(err, fmt.Errorf("PEERS_HOSTS: %q is not a number of hosts from 1 to 100000", text))
		}
		p.hosts = append(p.hosts, n)
	}
	slices.Sort(p.hosts)
	p.hosts = slices.Compact(p.hosts)
	for text := range strings.SplitSeq(cmp.Or(env("PEERS_ORDERS"), "pack-first,spread,random"), ",") {
		o := order(strings.TrimSpace(text))
		if !slices.Contains(everyOrder, o) {
			err = errors.Join(err, fmt.Errorf("PEERS_ORDERS: %q is none of pack-first, spread, random", text))
		}
		p.orders = append(p.orders, o)
	}
	seconds, failed := strconv.ParseFloat(cmp.Or(env("PEERS_SECONDS"), "3"), 64)
	if failed != nil || seconds <= 0 || seconds > 600 {
		err = errors.Join(err, fmt.Errorf("PEERS_SECONDS: %q is not a number of seconds above 0 and at most 600", env("PEERS_SECONDS")))
	}
	p.each = time.Duration(seconds * float64(time.Second))
	return p, err
}

func (p plan) String() string {
	steps := len(p.hosts) * len(p.orders) * len(callerSteps)
	return fmt.Sprintf("hosts %v, orders %v, %v callers: %d steps of %v for Placement and as many for cellgate, %v in all beside what it takes to make the hosts",
		p.hosts, p.orders, callerSteps, steps, p.each, 2*time.Duration(steps)*p.each)
}

// progress writes a line to the standard error.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
