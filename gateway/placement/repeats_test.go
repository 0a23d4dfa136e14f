package placement

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"cellgate/internal/fault"
)

const consumerB = "6f70656e-0000-4000-8000-0000000000c2"

// forgetful loses the answer to a write that it has done, as a cell does that dies.
type forgetful struct {
	*memory
	lose bool
}

func (f *forgetful) Write(ctx context.Context, w Write) error {
	if err := f.memory.Write(ctx, w); err != nil || !f.lose {
		return err
	}
	f.lose = false
	return fault.New(fault.CellUnavailable, "the answer was lost")
}

func TestAPI_WriteRepeatedAfterItsAnswerWasLost_IsAnswered(t *testing.T) {
	b := &forgetful{memory: newMemory()}
	s := httptest.NewServer(New(Config{TrustLoopback: true, AcceptRepeats: true}, Deps{Backend: b, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	must := func(method, path, body string, want int) {
		t.Helper()
		if got := ask(t, s.URL, "1.36", method, path, body); got.status != want {
			t.Fatalf("%s %s %s: %d %v, want %d", method, path, body, got.status, got.body, want)
		}
	}
	must("POST", "/resource_providers", `{"name": "host1", "uuid": "`+providerA+`"}`, 200)
	must("PUT", "/resource_providers/"+providerA+"/inventories", `{"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}}`, 200)
	hold := func(n, generation string) string {
		allocations := "{}"
		if n != "0" {
			allocations = `{"` + providerA + `": {"resources": {"VCPU": ` + n + `}}}`
		}
		return `{"allocations": ` + allocations + `, "project_id": "p", "user_id": "u", "consumer_generation": ` + generation + `}`
	}
	move := `{"` + consumerA + `": ` + hold("0", "2") + `, "` + consumerB + `": ` + hold("2", "null") + `}`
	for _, step := range []struct{ method, path, body string }{
		{"PUT", "/allocations/" + consumerA, hold("1", "null")},
		{"PUT", "/allocations/" + consumerA, hold("2", "1")},
		{"POST", "/allocations", move}, // as the conductor moves what a server holds to a migration
		{"PUT", "/allocations/" + consumerB, hold("0", "1")},
	} {
		b.lose = true
		must(step.method, step.path, step.body, 503)
		must(step.method, step.path, step.body, 204)
	}

	// A write that differs from what the consumers hold is a conflict, as always.
	must("PUT", "/allocations/"+consumerA, hold("1", "null"), 204)
	must("PUT", "/allocations/"+consumerA, hold("2", "null"), 409)
	must("PUT", "/allocations/"+consumerA, strings.Replace(hold("1", "null"), `"p"`, `"q"`, 1), 409)
	must("PUT", "/allocations/"+consumerA, hold("0", "7"), 409)
	must("POST", "/allocations", move, 409)
}
