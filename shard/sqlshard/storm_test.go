package sqlshard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"

	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/shard/shardtest"
)

// proxied gives a proxy in front of the server, and a database's URL through it.
func proxied(t *testing.T, srv *pgtest.Server, direct string) (*pgproxy.Proxy, string) {
	t.Helper()
	return proxiedAt(t, srv.Addr(), direct)
}

func proxiedAt(t *testing.T, addr, direct string) (*pgproxy.Proxy, string) {
	t.Helper()
	p, err := pgproxy.New(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the proxy: %v", err)
		}
	})
	url, err := p.URL(direct)
	if err != nil {
		t.Fatal(err)
	}
	return p, url
}

// seeds gives the seeds of a test: few of them, many with CELLGATE_LONG, or the one in
// CELLGATE_SEED.
func seeds(t *testing.T, few, many int) []uint64 {
	t.Helper()
	if text := os.Getenv("CELLGATE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("CELLGATE_SEED: %v", err)
		}
		return []uint64{n}
	}
	if os.Getenv("CELLGATE_LONG") != "" {
		few = many
	}
	var list []uint64
	for n := range few {
		list = append(list, uint64(n+1))
	}
	return list
}

// repeatWith logs the command that repeats a failed test, up to the scheduling of goroutines.
func repeatWith(t *testing.T, seed uint64) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat it: CELLGATE_SEED=%d go test -race -count=1 ./shard/sqlshard -run '^%s$'", seed, t.Name())
		}
	})
}

// TestI1_I3_Storm runs shardtest.Storm through the proxy with all its faults.
func TestI1_I3_Storm(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		const lanes = 4
		for _, seed := range seeds(t, 1, 30) {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				repeatWith(t, seed)
				direct := at.database(t)
				look := openAt(t, at.options(direct))
				defer mustClose(t, look)
				proxy, url := at.proxied(t, direct)
				s := openAt(t, at.options(url))
				defer mustClose(t, s)
				storm := shardtest.NewStorm(look, seed)
				var applies []shardtest.Apply
				for i := range lanes {
					l, err := s.OpenLane(t.Context(), fmt.Sprintf("replica-%d", i))
					if err != nil {
						t.Fatal(err)
					}
					if i == 0 {
						if err := storm.Begin(t.Context(), l); err != nil {
							t.Fatal(err)
						}
					}
					applies = append(applies, l.Apply)
				}
				proxy.SetPlan(pgproxy.Seeded(seed, pgproxy.Weather(0.025)...))
				violations := 0
				for range 2 {
					proxy.On(true)
					wrong, err := storm.Window(t.Context(), applies, func() error {
						proxy.On(false)
						var errs error
						for _, a := range applies {
							errs = errors.Join(errs, shardtest.Settle(t.Context(), a))
						}
						return errs
					})
					if err != nil {
						t.Fatal(err)
					}
					violations += len(wrong)
					for _, w := range wrong {
						t.Error(w)
					}
				}
				sums, counts := storm.Sums, s.Counts()
				if sums.Refused == 0 || counts.Unknown == 0 || len(proxy.Counts()) < 8 {
					t.Errorf("the test proves little: %+v, %+v, %v", sums, counts, proxy.Counts())
				}
				t.Logf("%+v, %+v", sums, counts)
				shardtest.Summary{
					Backend: at.name + ", storm", Tests: 1, Seeds: 1, Operations: int64(sums.Operations),
					Kinds: proxy.Counts(), Violations: violations,
				}.Tell(t)
			})
		}
	})
}
