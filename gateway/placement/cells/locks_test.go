package cells

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/placement"
)

// bothAtOnce sends two requests and gives their statuses.
func bothAtOnce(t *testing.T, method string, urls, bodies [2]string) (status [2]int) {
	t.Helper()
	var both sync.WaitGroup
	for i := range urls {
		both.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), method, urls[i], strings.NewReader(bodies[i]))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Auth-Token", "admin")
			req.Header.Set("OpenStack-API-Version", "placement 1.39")
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			status[i] = resp.StatusCode
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	return status
}

// Two requests to two cells conflict. If they come at once, one of them is refused, as if
// they came one after the other.
func TestWrite_SimultaneousInTwoCells_OneIsRefused(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, _, url := startGateway(t, "one", one, two)
	for id, cell := range map[string]string{compute: "one", storage: "two"} {
		call(t, "POST", url+"/cells/"+cell+"/resource_providers", fmt.Sprintf(`{"name": %q, "uuid": %q}`, cell, id), 200)
		call(t, "PUT", url+"/resource_providers/"+id+"/inventories", `{"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 50}}}`, 200)
	}
	inCells := [2]string{url + "/cells/one/resource_providers", url + "/cells/two/resource_providers"}
	provider := `{"name": "%s-%d", "uuid": "dddddddd-0000-4000-8000-%012d"}`
	for n := range 20 {
		consumer := fmt.Sprintf("%s/allocations/bbbbbbbb-0000-4000-8000-%012d", url, n)
		for what, got := range map[string][2]int{
			"a name":     bothAtOnce(t, "POST", inCells, [2]string{fmt.Sprintf(provider, "same", n, 3*n), fmt.Sprintf(provider, "same", n, 3*n+1)}),
			"a uuid":     bothAtOnce(t, "POST", inCells, [2]string{fmt.Sprintf(provider, "left", n, 3*n+2), fmt.Sprintf(provider, "right", n, 3*n+2)}),
			"a consumer": bothAtOnce(t, "PUT", [2]string{consumer, consumer}, [2]string{holds("null", compute), holds("null", storage)}),
		} {
			if (got[0] == http.StatusConflict) == (got[1] == http.StatusConflict) || got[0]+got[1] >= 2*http.StatusConflict {
				t.Errorf("%s, written twice at once: %v, want one done and one 409", what, got)
			}
		}
	}
}

// A write that waits for another one does so no longer than its request lasts, and leaves no lock.
func TestWrite_WhileAnotherHangs_WaitsForItsDeadlineAlone(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	_, b, _ := startGateway(t, "one", one, two)
	write := func(ctx context.Context, id, cell string) error {
		return b.Write(ctx, placement.Write{Providers: []placement.ProviderWrite{{UUID: id, Cell: cell, Create: true, Name: new("same")}}})
	}
	well := make(chan struct{})
	one.sick.Store(&well)
	first := make(chan error, 1)
	go func() { first <- write(t.Context(), compute, "one") }()
	locked := func() int {
		b.locks.mu.Lock()
		defer b.locks.mu.Unlock()
		return len(b.locks.held)
	}
	for locked() == 0 {
		<-time.After(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := write(ctx, storage, "two"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the first one hangs: %v, want its deadline", err)
	}
	close(well)
	if err := <-first; err != nil {
		t.Error(err)
	}
	var r *placement.Refusal
	if err := write(t.Context(), storage, "two"); !errors.As(err, &r) || r.Reason != placement.DuplicateProvider {
		t.Errorf("after the first one: %v, want a duplicate", err)
	}
	if n := locked(); n > 0 {
		t.Errorf("%d locks are left", n)
	}
}
