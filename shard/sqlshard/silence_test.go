package sqlshard

import (
	"context"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// During each call of the store, all connections of the pool fall silent without being closed. The
// call succeeds on new connections.
func TestSilentConnectionsAreGivenUp(t *testing.T) {
	srv := pgtest.Start(t)
	for name, call := range map[string]func(ctx context.Context, s *stand) error{
		"Now":  func(ctx context.Context, s *stand) error { _, err := s.Now(ctx); return err },
		"Due":  func(ctx context.Context, s *stand) error { _, err := s.Due(ctx, 10); return err },
		"Tail": func(ctx context.Context, s *stand) error { _, _, err := s.Tail(ctx, nil, 10); return err },
		"Trim": func(ctx context.Context, s *stand) error { return s.Trim(ctx, time.Unix(1, 0)) },
		"Load": func(ctx context.Context, s *stand) error {
			_, err := s.Load(ctx, func(shard.Change) error { return nil })
			return err
		},
		"FindClaims": func(ctx context.Context, s *stand) error { _, err := s.FindClaims(ctx, shard.ClaimQuery{}); return err },
		"FindDecisions": func(ctx context.Context, s *stand) error {
			_, err := s.FindDecisions(ctx, shard.DecisionQuery{})
			return err
		},
		"TrimDecisions": func(ctx context.Context, s *stand) error { return s.TrimDecisions(ctx, time.Unix(1, 0), 10) },
		"PutDecisions": func(ctx context.Context, s *stand) error {
			return s.PutDecisions(ctx, []shard.Decision{{ID: "cell1.1", At: time.Unix(1, 0), Body: []byte("b")}})
		},
		"FindHosts": func(ctx context.Context, s *stand) error { _, err := s.FindHosts(ctx, shard.HostQuery{}); return err },
		"OpenLane":  func(ctx context.Context, s *stand) error { _, err := s.OpenLane(ctx, "other"); return err },
		"Apply":     func(_ context.Context, s *stand) error { return s.claim(2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, proxy := behindProxy(t, srv)
			ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
			defer cancel()
			proxy.SetPlan(silentAt(proxy, func(pgproxy.Statement) bool { return true }))
			if err := call(ctx, s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n := proxy.Counts()["silent"]; n != 1 || s.Counts().Lost == 0 {
				t.Errorf("the proxy was silenced %d times, %+v", n, s.Counts())
			}
		})
	}
}

// If the connection of a commit falls silent after the commit was done, the store looks the commit
// up.
func TestASilentCommitIsLookedUp(t *testing.T) {
	s, proxy := behindProxy(t, pgtest.Start(t))
	proxy.SetPlan(silentAt(proxy, func(st pgproxy.Statement) bool { return st.Role == pgproxy.Commit }))
	if err := s.claim(2); err != nil {
		t.Errorf("Apply: %v", err)
	}
	if c := s.Counts(); c.Unknown != 1 || c.Resolved != 1 {
		t.Errorf("counted %+v", c)
	}
	if n := s.live(); n != 2 {
		t.Errorf("%d claims are live", n)
	}
}

// A Load that has given rows does not start again: it fails, and soon.
func TestALoadThatFallsSilentEnds(t *testing.T) {
	s, proxy := behindProxy(t, pgtest.Start(t))
	var once sync.Once
	_, err := s.Load(t.Context(), func(shard.Change) error {
		once.Do(proxy.SilenceAll)
		return nil
	})
	if fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("Load: %v", err)
	}
	if _, err := s.Load(t.Context(), func(shard.Change) error { return nil }); err != nil {
		t.Errorf("Load afterwards: %v", err)
	}
}

// behindProxy is a stand with a claim. A statement may take 3 s, and a silent connection loses its
// locks after 1 s.
func behindProxy(t *testing.T, srv *pgtest.Server) (*stand, *pgproxy.Proxy) {
	proxy, url := proxied(t, srv, newDatabase(t))
	opts := testOptions(url)
	opts.StatementTimeout, opts.IdleTimeout = 3*time.Second, time.Second
	s := newStand(t, opts)
	if err := s.apply(shard.Op{Claim: shardtest.NewClaim(1, 1, 1)}); err != nil {
		t.Fatal(err)
	}
	return s, proxy
}

// silentAt silences all connections at the first statement that matches.
func silentAt(proxy *pgproxy.Proxy, match func(pgproxy.Statement) bool) pgproxy.Plan {
	var once sync.Once
	return func(st pgproxy.Statement) pgproxy.Fault {
		if st.Role != pgproxy.Connect && match(st) {
			once.Do(proxy.SilenceAll)
		}
		return pgproxy.Fault{}
	}
}
