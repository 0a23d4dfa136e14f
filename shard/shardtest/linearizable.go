package shardtest

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"cellgate/internal/testlong"
)

func linearizableClauses() []clause {
	return []clause{{name: "I1_ClaimsReleasesAndReadsAreLinearizable", test: linearizable}}
}

// access is one operation on a provider, as its caller observes it.
type access struct {
	host   int
	before int64 // the amount in use when the window began
	kind   accessKind
	amount int64
}

type accessKind uint8

const (
	takeSome accessKind = iota
	giveBack
	lookAt
)

const linearCapacity = 20

// provider models a provider as an amount in use. A claim succeeds exactly when it fits, a release lowers the amount,
// and a read returns it.
var provider = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byHost := map[int][]porcupine.Operation{}
		for _, op := range history {
			h := op.Input.(access).host
			byHost[h] = append(byHost[h], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byHost {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return int64(-1) },
	Step: func(state, input, output any) (bool, any) {
		in, used := input.(access), state.(int64)
		if used < 0 {
			used = in.before
		}
		switch in.kind {
		case takeSome:
			fits := used+in.amount <= linearCapacity
			if fits {
				used += in.amount
			}
			return output.(int64) == 1 == fits, used
		case giveBack:
			return true, used - in.amount
		default:
			return output.(int64) == used, used
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
}

// linearizable lets callers claim, confirm, swap, release and read without faults. Several callers share a lane.
// Storm lists the checks.
func linearizable(s *suite) {
	storm := NewStorm(s, 1)
	storm.Hosts, storm.Workers, storm.Batch = 5, 8, 3
	lanes := s.openLanes(4)
	if err := storm.Begin(s.ctx, lanes[0]); err != nil {
		s.Fatal(err)
	}
	var applies []Apply
	for _, l := range lanes {
		applies = append(applies, l.Apply)
	}
	windows := 2
	if testlong.On() {
		windows = 10
	}
	for range windows {
		s.seed()
		wrong, err := storm.Window(s.ctx, applies, func() error { return nil })
		if err != nil {
			s.Fatal(err)
		}
		for _, w := range wrong {
			s.Error(w)
		}
	}
	if sums := storm.Sums; sums.Refused == 0 || sums.Reads == 0 {
		s.Errorf("no claim was refused, or nothing was read: the test proves nothing: %+v", sums)
	}
}
