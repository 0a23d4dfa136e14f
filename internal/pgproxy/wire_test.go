package pgproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/pgtest"
)

func TestPasswordsPassAndEncryptionIsRefused(t *testing.T) {
	srv := pgtest.New(t, pgtest.Options{Password: "it's a secret"})
	w := worldAt(t, srv, srv.URL("postgres"))
	c, err := pgx.Connect(t.Context(), strings.Replace(w.url, "sslmode=disable", "sslmode=prefer", 1))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close(t.Context())
	if c, err := pgx.Connect(t.Context(), strings.Replace(w.url, "sslmode=disable", "sslmode=require", 1)); err == nil {
		_ = c.Close(t.Context())
		t.Error("it speaks TLS")
	}
	if _, err := pgx.Connect(t.Context(), strings.Replace(w.url, "secret", "guess", 1)); stateOf(err) != "28P01" {
		t.Errorf("a wrong password: %v", err)
	}
}

// Traffic that the proxy does not examine passes: COPY, notifications, notices, much data, a
// pipeline that is flushed in pieces, a cancel request.
func TestEverythingElsePasses(t *testing.T) {
	w := newWorld(t)
	c := w.connect(w.url, "cache_statement")
	ctx := t.Context()
	var rows [][]any
	for n := range 20_000 {
		rows = append(rows, []any{n, n})
	}
	if n, err := c.CopyFrom(ctx, pgx.Identifier{"x"}, []string{"n", "m"}, pgx.CopyFromRows(rows)); err != nil || n != 20_000 {
		t.Errorf("copied %d, %v", n, err)
	}
	var text string
	if err := c.QueryRow(ctx, "SELECT repeat('y', 3000000) || $1::text", "z").Scan(&text); err != nil || len(text) != 3_000_001 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	var out strings.Builder
	if _, err := c.PgConn().CopyTo(ctx, &out, "COPY (SELECT n FROM x ORDER BY n LIMIT 3) TO STDOUT"); err != nil || out.String() != "0\n1\n2\n" {
		t.Errorf("copied out %q, %v", out.String(), err)
	}
	if _, err := c.Exec(ctx, "LISTEN y"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.direct.Exec(ctx, "NOTIFY y, 'here'"); err != nil {
		t.Fatal(err)
	}
	if n, err := c.WaitForNotification(ctx); err != nil || n.Payload != "here" {
		t.Errorf("heard %v, %v", n, err)
	}
	p := c.PgConn().StartPipeline(ctx)
	p.SendQueryParams("SELECT 1", nil, nil, nil, nil)
	p.SendFlushRequest()
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	if r, err := p.GetResults(); err != nil {
		t.Errorf("a flushed result: %v, %v", r, err)
	}
	if err := errors.Join(p.Sync(), p.Close()); err != nil {
		t.Error(err)
	}
	waiting := w.connect(w.url, "exec")
	ended := make(chan error, 1)
	go func() { _, err := waiting.Exec(ctx, "SELECT pg_sleep(600)"); ended <- err }()
	for sleeping := false; !sleeping; {
		if err := w.direct.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").Scan(&sleeping); err != nil {
			t.Fatal(err)
		}
	}
	if err := waiting.PgConn().CancelRequest(ctx); err != nil {
		t.Error(err)
	}
	if err := <-ended; stateOf(err) != "57014" {
		t.Errorf("after a cancel request: %v", err)
	}
	w.counted()
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	w := newWorld(t)
	c := w.connect(w.url, "exec")
	w.proxy.SetPlan(When(is("SELECT 1"), Fault{Kind: Delay, Delay: 1 << 50}))
	ended := make(chan error, 1)
	go func() { _, err := c.Exec(context.Background(), "SELECT 1"); ended <- err }()
	for w.proxy.Counts()["delay"] == 0 {
		if t.Context().Err() != nil {
			t.Fatal("no delay")
		}
	}
	if err := w.proxy.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; stateOf(err) != "lost" {
		t.Errorf("the client hears %v", err)
	}
}

// With equal seeds, equal statements have equal fates.
func TestSeededPlansAreFunctionsOfTheirSeed(t *testing.T) {
	a, b, other := Seeded(3, Weather(0.3)...), Seeded(3, Weather(0.3)...), Seeded(4, Weather(0.3)...)
	seen := map[string]int{}
	differ := false
	for conn := range 60 {
		for n := range 200 {
			s := Statement{Conn: conn, N: n, Role: []Role{Work, Begin, Commit, Rollback}[n%4]}
			if n == 0 {
				s.Role = Connect
			}
			f := a(s)
			if f != b(s) {
				t.Fatalf("%+v has two fates", s)
			}
			differ = differ || f != other(s)
			if s.Role == Rollback && f.Kind != None {
				t.Errorf("a ROLLBACK has %+v", f)
			}
			name := f.name(s.Role == Commit)
			if s.Role == Connect {
				name = f.connectName()
			}
			seen[name]++
		}
	}
	if !differ {
		t.Error("two seeds are one plan")
	}
	for _, c := range Weather(0.3) {
		name := c.Fault.name(c.Where == AtCommit)
		if c.Where == AtConnect {
			name = c.Fault.connectName()
		}
		if seen[name] == 0 {
			t.Errorf("%s never happens: %v", name, seen)
		}
	}
}

// TestStorm runs transactions of every shape with many faults. Acknowledged ones are in the table,
// refused ones are not. Each other one is there completely or not at all.
func TestStorm(t *testing.T) {
	const workers, each = 6, 60
	w := newWorld(t)
	w.proxy.SetPlan(Seeded(1, Weather(0.15)...))
	var mu sync.Mutex
	acked, refused, unknown := map[int]bool{}, map[int]bool{}, 0
	var wg sync.WaitGroup
	for who := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(9, uint64(who)))
			var c *pgx.Conn
			for i := range each {
				n := 2 * (who*each + i)
				for c == nil || c.IsClosed() {
					c, _ = pgx.Connect(t.Context(), w.url+"&default_query_exec_mode="+modes[1+rng.IntN(len(modes)-1)])
					if t.Context().Err() != nil {
						return
					}
				}
				b := &pgx.Batch{}
				for _, sql := range []string{"BEGIN", fmt.Sprintf("INSERT INTO x VALUES (%d, %d)", n, n), fmt.Sprintf("INSERT INTO x VALUES (%d, %d)", n+1, n+1), "COMMIT"} {
					b.Queue(sql)
				}
				err := c.SendBatch(t.Context(), b).Close()
				if !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
					_, _ = c.Exec(t.Context(), "ROLLBACK")
				}
				mu.Lock()
				switch stateOf(err) {
				case "done":
					acked[n] = true
				case "40001":
					refused[n] = true
				case "40003", "57P01", "lost":
					unknown++
				default:
					t.Errorf("the client hears %v", err)
				}
				mu.Unlock()
			}
			if c != nil {
				_ = c.Close(context.Background())
			}
		})
	}
	wg.Wait()
	counts := w.proxy.Counts()
	w.proxy.On(false)
	// A late trip ends before the proxy does.
	if err := w.proxy.Close(); err != nil {
		t.Error(err)
	}
	there := map[int]int{}
	for _, f := range strings.Fields(w.rows()) {
		var n int
		if _, err := fmt.Sscan(f, &n); err != nil {
			t.Fatal(err)
		}
		there[n&^1]++
	}
	for n := range acked {
		if there[n] != 2 {
			t.Errorf("transaction %d was acknowledged, and has %d of 2 rows", n, there[n])
		}
	}
	for n, rows := range there {
		if refused[n] || rows != 2 {
			t.Errorf("transaction %d has %d of 2 rows, refused: %v", n, rows, refused[n])
		}
	}
	if len(acked) == 0 || len(refused) == 0 || unknown == 0 || len(maps.Clone(counts)) < 10 {
		t.Errorf("%d done, %d refused, %d unknown: the test proves little (%v)", len(acked), len(refused), unknown, counts)
	}
	t.Logf("%d done, %d refused, %d unknown: %v", len(acked), len(refused), unknown, counts)
}
