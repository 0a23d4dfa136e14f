package shardtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"cellgate/shard"
)

func linearizableClauses() []clause {
	return []clause{{name: "ClaimsReleasesAndReadsAreLinearizable", test: linearizable}}
}

// access is one operation on a provider, as its caller sees it.
type access struct {
	host   int
	before int64 // in use when the window began
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

// provider is what a provider is to its callers: an amount in use. A claim is
// done exactly when it fits, a release gives back, a look sees the amount.
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

// linearizable records windows of concurrent claims, releases and reads, by
// several callers a lane, and checks each with porcupine. A window begins with
// nothing under way, from what a read shows then.
func linearizable(s *suite) {
	const hosts, lanes, callers, steps = 5, 4, 8, 100
	windows := 2
	if os.Getenv("CELLGATE_LONG") != "" {
		windows = 10
	}
	for h := range hosts {
		s.do(NewHost(h, linearCapacity))
	}
	var ls []shard.Lane
	for w := range lanes {
		ls = append(ls, s.openLane(fmt.Sprintf("lane-%d", w)))
	}
	held := make([][]*shard.Claim, callers)
	next, total, refused := 0, 0, 0
	for window := range windows {
		rows := s.rows()
		var before [hosts]int64
		for h := range before {
			before[h] = rows.Usages[HostID(h)].Of(HostID(h), Class)
		}
		var mu sync.Mutex
		var history []porcupine.Operation
		var wg sync.WaitGroup
		begin := time.Now()
		for who := range callers {
			s.seed()
			rng := rand.New(rand.NewPCG(uint64(window), uint64(who)))
			first := next + who*steps
			wg.Go(func() {
				l := ls[who%lanes]
				for i := range steps {
					in := access{host: rng.IntN(hosts), amount: 1 + rng.Int64N(6)}
					var op shard.Op
					mine := held[who]
					switch k := rng.IntN(10); {
					case k < 2:
						in.kind = lookAt
					case k < 6 && len(mine) > 0:
						c := mine[len(mine)-1]
						held[who] = mine[:len(mine)-1]
						in.kind, in.amount = giveBack, c.Allocations[0].Amount
						for in.host = 0; HostID(in.host) != c.HostUUID; {
							in.host++
						}
						op = opOf(release{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID})
					default:
						op = opOf(NewClaim(first+i, in.host, in.amount))
					}
					in.before = before[in.host]
					call := time.Since(begin)
					var out int64
					if in.kind == lookAt {
						r, _, err := LoadRows(s.ctx, s)
						if err != nil {
							s.Errorf("Load: %v", err)
							return
						}
						out = r.Usages[HostID(in.host)].Of(HostID(in.host), Class)
					} else {
						a, err := l.Apply(s.ctx, []shard.Op{op})
						if err != nil {
							s.Errorf("Apply: %v", err)
							return
						}
						if o := a.Outcomes[0]; o.Refusal == nil {
							out = 1
							if in.kind == takeSome {
								held[who] = append(held[who], o.Claim)
							}
						}
					}
					end := time.Since(begin)
					mu.Lock()
					history = append(history, porcupine.Operation{
						ClientId: who, Input: in, Output: out, Call: call.Nanoseconds(), Return: end.Nanoseconds(),
					})
					if in.kind == takeSome && out == 0 {
						refused++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		next += callers * steps
		total += len(history)
		if got := porcupine.CheckOperationsTimeout(provider, history, time.Minute); got != porcupine.Ok {
			s.Fatalf("window %d of %d operations: linearizable is %v", window, len(history), got)
		}
	}
	if refused == 0 {
		s.Error("no claim was refused: the test proves little")
	}
	s.Logf("%d operations in %d windows, %d claims refused: linearizable", total, windows, refused)
}
