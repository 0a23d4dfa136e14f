package cells

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/placement"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	inOne   = "bbbbbbbb-0000-4000-8000-0000000000a1"
	inTwo   = "bbbbbbbb-0000-4000-8000-0000000000a2"
	inBoth  = "bbbbbbbb-0000-4000-8000-0000000000a3"
	fresh   = "bbbbbbbb-0000-4000-8000-0000000000a4"
	migrant = "bbbbbbbb-0000-4000-8000-0000000000a5"
	nobody  = "bbbbbbbb-0000-4000-8000-0000000000a6"
)

func holds(generation string, providers ...string) string {
	var list []string
	for _, p := range providers {
		list = append(list, fmt.Sprintf(`%q: {"resources": {"DISK_GB": 1}}`, p))
	}
	return fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": %s, "allocations": {%s}}`, generation, strings.Join(list, ", "))
}

// TestI7_SilentCell_OthersAnswer: a request that concerns one cell alone is answered while another cell hangs or is
// dead, and at once if that cell's breaker is open. A request that may concern the silent cell is refused with 503.
func TestI7_SilentCell_OthersAnswer(t *testing.T) {
	for _, c := range []struct {
		name   string
		silent func(*realCell)
	}{
		{"hung", func(c *realCell) { c.hung.Store(true) }},
		{"dead", func(c *realCell) { c.stop() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			one, two := startCell(t, "one", 1), startCell(t, "two", 2)
			_, b, url := startGateway(t, "one", one, two)
			_, b2, other := startGateway(t, "one", one, two)
			b.cfg.Budget, b2.cfg.Budget = defaultBudget, defaultBudget
			for id, cell := range map[string]string{compute: "one", storage: "two"} {
				call(t, "POST", url+"/cells/"+cell+"/resource_providers", fmt.Sprintf(`{"name": %q, "uuid": %q}`, cell, id), 200)
				call(t, "PUT", url+"/resource_providers/"+id+"/inventories", `{"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 50}}}`, 200)
			}
			for id, body := range map[string]string{inOne: holds("null", compute), inTwo: holds("null", storage), inBoth: holds("null", compute, storage)} {
				call(t, "PUT", url+"/allocations/"+id, body, 204)
			}
			c.silent(two)

			// Each call about cell one is answered when the budget of cell two is over.
			began := time.Now()
			call(t, "GET", url+"/allocations/"+inOne, "", 200)
			call(t, "PUT", url+"/allocations/"+inOne, holds("1", compute), 204)
			call(t, "POST", url+"/allocations", fmt.Sprintf(`{%q: %s, %q: %s}`, inOne, holds("2"), migrant, holds("null", compute)), 204)

			if took := time.Since(began); took > 3*defaultBudget+testwait.Limit/10 {
				t.Errorf("three calls took %v: they waited for more than the silent cell's budget", took)
			}

			for limit := time.Now().Add(testwait.Limit); ; {
				open := !slices.ContainsFunc(b.Cells.Named("two").ReplicaStates(), func(s *cellgatev1.ReplicaState) bool {
					return s.GetBreaker() == cellgatev1.BreakerState_CLOSED
				})
				if open {
					break
				}
				if time.Now().After(limit) {
					t.Fatal("the breaker does not open")
				}
				<-time.After(10 * time.Millisecond)
			}
			// With the silent cell's breaker open, no call waits for it.
			b.cfg.Budget, began = testwait.Limit, time.Now()
			at := func(method, path, body string, want int) { t.Helper(); call(t, method, url+path, body, want) }
			at("PUT", "/allocations/"+fresh, holds("null", compute), 204)
			at("PUT", "/allocations/"+fresh, holds("null", compute), 409)
			at("PUT", "/allocations/"+fresh, holds("1", compute, storage), 503)
			at("DELETE", "/allocations/"+fresh, "", 204)
			at("GET", "/resource_providers/"+compute+"/allocations", "", 503)                                             // inBoth is there
			at("PUT", "/resource_providers/"+compute+"/traits", `{"resource_provider_generation": 6, "traits": []}`, 200) // no refused write raised the generation
			at("POST", "/cells/one/resource_providers", fmt.Sprintf(`{"name": "other", "uuid": %q}`, third), 200)

			// These calls are about what the silent cell has, or may have.
			at("GET", "/resource_providers/"+storage, "", 503)
			at("GET", "/allocations/"+inTwo, "", 503)
			at("PUT", "/allocations/"+inTwo, holds("1", compute), 503)
			at("PUT", "/allocations/"+inTwo, holds("null", compute), 503)
			at("GET", "/allocations/"+inBoth, "", 503)
			at("DELETE", "/allocations/"+inBoth, "", 503)
			at("GET", "/allocations/"+nobody, "", 503)
			at("DELETE", "/allocations/"+nobody, "", 503)
			// A compute of cell one asks for consumers of cell one.
			at("GET", "/cells/one/allocations/"+nobody, "", 200)
			at("DELETE", "/cells/one/allocations/"+nobody, "", 404)
			at("DELETE", "/cells/two/allocations/"+nobody, "", 503)
			// A new compute looks for its provider before it makes it.
			for path, want := range map[string]int{"/resource_providers/" + nobody: 404, "/resource_providers?in_tree=" + nobody: 200} {
				at("GET", path, "", 503)
				at("GET", "/cells/one"+path, "", want)
				at("GET", "/cells/two"+path, "", 503)
			}
			if took := time.Since(began); took > testwait.Limit/2 {
				t.Errorf("the calls took %v: one waited for the silent cell", took)
			}

			// Lists and searches have the data of the cells that answer, and name the cells that do not.
			for _, path := range []string{"/resource_providers", "/allocation_candidates?resources=DISK_GB:1", "/usages?project_id=p"} {
				for _, base := range []string{url, other} {
					got, header := get(t, base+path)
					if !strings.Contains(got, compute) && !strings.Contains(got, "DISK_GB") || strings.Contains(got, storage) || !slices.Equal(header["Cellgate-Silent-Cell"], []string{"two"}) {
						t.Errorf("GET %s: %v %s", path, header, got)
					}
				}
			}

			// A gateway that has not seen the consumer trusts the cell that has it.
			call(t, "GET", other+"/allocations/"+inBoth, "", 200)
		})
	}
}

// TestI7_SickCell_WritesElsewhereDoNotWaitForIt: writes that cannot concern a cell do not wait for it if it does not
// answer while its breaker is closed.
func TestI7_SickCell_WritesElsewhereDoNotWaitForIt(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, b, url := startGateway(t, "one", one, two)
	b.cfg.Budget = time.Minute
	for id, cell := range map[string]string{compute: "one", storage: "two"} {
		call(t, "POST", url+"/cells/"+cell+"/resource_providers", fmt.Sprintf(`{"name": %q, "uuid": %q}`, cell, id), 200)
		call(t, "PUT", url+"/resource_providers/"+id+"/inventories", `{"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 50}}}`, 200)
	}
	call(t, "PUT", url+"/allocations/"+inOne, holds("null", compute), 204)
	call(t, "PUT", url+"/allocations/"+inTwo, holds("null", storage), 204)
	// A cell that answers is waited for, however late: the consumer is there already.
	call(t, "PUT", url+"/allocations/"+inTwo, holds("null", compute), 409)
	well := make(chan struct{})
	two.sick.Store(&well)
	defer close(well)
	began := time.Now()
	call(t, "PUT", url+"/allocations/"+fresh, holds("null", compute), 204)
	call(t, "PUT", url+"/allocations/"+inOne, holds("1", compute), 204)
	call(t, "POST", url+"/allocations", fmt.Sprintf(`{%q: %s, %q: %s}`, inOne, holds("2"), migrant, holds("null", compute)), 204)
	call(t, "PUT", url+"/cells/one/allocations/"+nobody, holds("null", compute), 204)
	call(t, "DELETE", url+"/allocations/"+fresh, "", 204)
	call(t, "POST", url+"/reshaper", fmt.Sprintf(`{"inventories": {%[1]q: {"resource_provider_generation": %[2]d, "inventories": {"DISK_GB": {"total": 60}}}}, "allocations": {%[3]q: %[4]s}}`,
		compute, generation(t, url, compute), migrant, holds("1", compute)), 204)
	if took := time.Since(began); took > b.cfg.Budget/2 {
		t.Errorf("six writes took %v: they waited for the sick cell", took)
	}
	if open := b.Cells.Named("two").ReplicaStates(); open[0].GetBreaker() != cellgatev1.BreakerState_CLOSED {
		t.Errorf("the breaker of the sick cell is %v: this shows nothing", open[0].GetBreaker())
	}
}

// generation returns the generation of a provider.
func generation(t *testing.T, url, provider string) (n int) {
	t.Helper()
	text, _ := get(t, url+"/resource_providers/"+provider)
	var p struct{ Generation int }
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return p.Generation
}

// A provider that one cell has cannot be made in another, because it would hide the first. A sick cell does not prevent
// that other providers are made.
func TestCreateProvider_AnotherCellHasIt_IsRefused(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, b, url := startGateway(t, "one", one, two)
	b.cfg.Budget = time.Minute
	body := `{"name": %q, "uuid": %q}`
	call(t, "POST", url+"/cells/two/resource_providers", fmt.Sprintf(body, "host", storage), 200)
	call(t, "PUT", url+"/resource_providers/"+storage+"/inventories", `{"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 50}}}`, 200)
	for _, wrong := range []struct{ name, uuid, want string }{
		{"other", storage, "Conflicting resource provider uuid: " + storage + " already exists."},
		{"host", compute, "Conflicting resource provider name: host already exists."},
	} {
		if text := call(t, "POST", url+"/cells/one/resource_providers", fmt.Sprintf(body, wrong.name, wrong.uuid), 409); !strings.Contains(text, wrong.want) {
			t.Errorf("%s, %s: %s", wrong.name, wrong.uuid, text)
		}
	}
	if text := call(t, "GET", url+"/resource_providers/"+storage+"/inventories", "", 200); !strings.Contains(text, `"total":50`) && !strings.Contains(text, `"total": 50`) {
		t.Error(text)
	}
	call(t, "POST", url+"/cells/one/resource_providers", fmt.Sprintf(body, "here", third), 200)
	for name, want := range map[string]int{"host": 409, "here": 200, "there": 200} {
		call(t, "PUT", url+"/resource_providers/"+third, fmt.Sprintf(`{"name": %q}`, name), want)
	}
	well := make(chan struct{})
	two.sick.Store(&well)
	defer close(well)
	began := time.Now()
	call(t, "POST", url+"/cells/one/resource_providers", fmt.Sprintf(body, "new", compute), 200)
	if took := time.Since(began); took > b.cfg.Budget/2 {
		t.Errorf("it took %v: it waited for the sick cell", took)
	}
}

const third = "aaaaaaaa-0000-4000-8000-0000000000b1"

// get is call of a GET that succeeds, with the answer's header.
func get(t *testing.T, url string) (string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	text, header := send(t, req, 200)
	return text, header
}

// TestCreateRoot_HostCell_DecidesBeforeTheDefault: a new root goes to the cell in the path, else to the compute node's
// cell, else to the default cell.
func TestCreateRoot_HostCell_DecidesBeforeTheDefault(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, b, url := startGateway(t, "one", one, two)
	b.HostCell = func(_ context.Context, uuid string) (string, error) {
		switch uuid {
		case compute:
			return "two", nil
		case third:
			return "", errors.New("the database is away")
		}
		return "", nil
	}
	body := `{"name": %[1]q, "uuid": %[1]q}`
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(body, third), 503)
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(body, compute), 200)
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(body, storage), 200)
	call(t, "POST", url+"/cells/two/resource_providers", fmt.Sprintf(body, other), 200)
	for id, want := range map[string]string{compute: "two", storage: "one", other: "two"} {
		if p, err := b.Providers(t.Context(), placement.ProviderQuery{UUIDs: []string{id}}); err != nil || len(p) != 1 || p[0].Cell != want {
			t.Errorf("provider %s: %+v, %v; want it in cell %s", id, p, err, want)
		}
	}
	for method, path := range map[string]string{"POST": "/resource_providers", "GET": "/resource_providers", "PUT": "/traits/CUSTOM_A", "DELETE": "/allocations/" + fresh} {
		if text := call(t, method, url+"/cells/nowhere"+path, fmt.Sprintf(body, third), 404); !strings.Contains(text, "no cell") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
