package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// asOf returns the generations that the changes of hosts, as the cell got them, are based on.
func (c *testCell) asOf() (over []int64) {
	for _, w := range c.adminStates() {
		over = append(over, w.GetAsOfGeneration())
	}
	for _, p := range c.facts() {
		over = append(over, p.GetAsOfGeneration())
	}
	return over
}

// first is the first host of cell1.
var first = testUUID(0xa, 0)

// ways are the changes of the first host of cell1, with its cell and without.
func ways(query string) [][3]string {
	host := "/v1/hosts/" + first
	state := `{"admin_state": "DISABLED", "reason": "r"`
	return [][3]string{
		{"PATCH", host, state + "}"},
		{"PATCH", host, state + `, "cell": "cell1"}`},
		{"PUT", host + "/facts/cinder", "{}"},
		{"PUT", host + "/facts/cinder?cell=cell1", "{}"},
		{"DELETE", host + "/facts/cinder" + query, ""},
	}
}

func TestUpdateHost_HostOfAGeneration_ChangeNamesIt(t *testing.T) {
	for _, way := range ways("") {
		cells := fleet(2, 1)
		w := start(t, cells, nil)
		// Facts can only be deleted if they exist.
		if way[0] == "DELETE" {
			w.send("PUT", way[1], "{}")
		}
		n, generation := len(cells[0].asOf()), cells[0].generation(first)
		if rec := w.send(way[0], way[1], way[2]); rec.Code != 200 || !slices.Equal(cells[0].asOf()[n:], []int64{generation}) {
			t.Errorf("%v: %d %s; sent over %v, not %d", way, rec.Code, rec.Body, cells[0].asOf()[n:], generation)
		}
	}
}

// A change that another one overtook is sent again for the newer generation, while its caller waits.
func TestUpdateHost_Overtaken_SentAgainForTheNewerGeneration(t *testing.T) {
	for _, way := range ways("") {
		synctest.Test(t, func(t *testing.T) {
			cells := fleet(2, 1)
			w := start(t, cells, nil)
			cells[0].overtake(2)
			rec := w.send(way[0], way[1], way[2])
			if over := cells[0].asOf(); rec.Code != 200 || len(over) != 3 || !slices.IsSorted(over) || over[0] == over[1] || over[1] == over[2] {
				t.Errorf("%v: %d %s; sent over %v", way, rec.Code, rec.Body, over)
			}
			cells[0].overtake(1000)
			if rec := w.send(way[0], way[1], way[2]); rec.Code != 409 || !strings.Contains(rec.Body.String(), "CONTENDED") {
				t.Errorf("%v, overtaken each time: %d %s", way, rec.Code, rec.Body)
			}
		})
	}
}

// overtake makes another caller change the first host before each of the next calls that change a host.
func (c *testCell) overtake(times int) {
	c.hook(func(_ context.Context, method string, _ any) error {
		if (method == "SetAdminState" || method == "PutFacts") && times > 0 {
			times--
			c.sayOfFirst(fmt.Sprint(times))
		}
		return nil
	}, nil)
}

// sayOfFirst changes the admin state and the facts of the first host, bypassing the faults.
func (c *testCell) sayOfFirst(what string) {
	c.t.Helper()
	ctx := context.Background()
	_, err := c.real.Scheduler.SetAdminState(ctx, &cellv1.SetAdminStateRequest{HostUuid: first, State: cellgatev1.HostAdmin_DISABLED, Reason: what})
	if err == nil {
		_, err = c.real.Scheduler.PutFacts(ctx, &cellv1.PutFactsRequest{HostUuid: first, Namespace: "cinder", Facts: `{"n": "` + what + `"}`})
	}
	if err != nil {
		c.t.Error(err)
	}
}

func TestWhoNamesAGenerationHearsThatThereIsANewerOne(t *testing.T) {
	cells := fleet(2, 1)
	w := start(t, cells, nil)
	old := cells[0].generation(first)
	cells[0].sayOfFirst("something")
	generation := cells[0].generation(first)
	patch := func(generation int64) (int, string) {
		rec := w.send("PATCH", "/v1/hosts/"+first, fmt.Sprintf(`{"admin_state": "DISABLED", "reason": "r", "if_generation": %d}`, generation))
		return rec.Code, rec.Body.String()
	}
	if code, body := patch(old); code != 409 || !strings.Contains(body, "STALE_GENERATION") || !strings.Contains(body, `"generation":"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body := patch(generation); code != 200 || !slices.Equal(cells[0].asOf(), []int64{old, generation}) {
		t.Errorf("%d %s; sent over %v", code, body, cells[0].asOf())
	}
	if code, body := patch(-1); code != 400 || !strings.Contains(body, "if_generation") {
		t.Errorf("%d %s", code, body)
	}
}

// A copy is refused that arrives after its caller got OUTCOME_UNKNOWN and made another change.
func TestUpdateHost_LateCopy_DoesNotUndoANewerChange(t *testing.T) {
	cells := fleet(1, 1)
	w := start(t, cells, nil)
	var late *cellv1.SetAdminStateRequest
	cells[0].hook(func(_ context.Context, method string, req any) error {
		if method != "SetAdminState" || late != nil {
			return nil
		}
		late = req.(*cellv1.SetAdminStateRequest)
		return status.Error(codes.Unavailable, "the connection broke")
	}, nil)
	host := "/v1/hosts/" + first
	if rec := w.send("PATCH", host, `{"admin_state": "DISABLED", "reason": "r"}`); !strings.Contains(rec.Body.String(), "OUTCOME_UNKNOWN") {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.send("PATCH", host, `{"admin_state": "ENABLED"}`); rec.Code != 200 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if _, err := cells[0].real.Scheduler.SetAdminState(t.Context(), late); fault.KindOf(err) != fault.StaleGeneration {
		t.Errorf("the copy was taken: %v", err)
	}
}

// If the generation is unknown, no change is sent.
func TestUpdateHost_GenerationUnknown_NothingIsSent(t *testing.T) {
	for _, way := range ways("?cell=cell1") {
		cells := fleet(1, 1)
		w := start(t, cells, nil)
		cells[0].hook(func(_ context.Context, method string, _ any) error {
			if method == "ListHosts" {
				return status.Error(codes.Unavailable, "the connection broke")
			}
			return nil
		}, nil)
		if rec := w.send(way[0], way[1], way[2]); rec.Code != 503 || !strings.Contains(rec.Body.String(), "CELL_UNAVAILABLE") || len(cells[0].asOf()) > 0 {
			t.Errorf("%v: %d %s; sent over %v", way, rec.Code, rec.Body, cells[0].asOf())
		}
	}
}

// A change of a host goes to one replica once, whatever becomes of it. A second copy would be refused as overtaken by
// the first, and its caller would take this for another caller's change.
func TestUpdateHost_CellOfTwoReplicas_OneGetsIt(t *testing.T) {
	host := "/v1/hosts/" + testUUID(0xa, 1)
	for _, way := range [][3]string{
		{"PATCH", host, `{"admin_state": "DISABLED", "reason": "r"}`},
		{"PATCH", host, `{"admin_state": "DISABLED", "reason": "r", "cell": "cell1", "if_generation": 1}`},
		{"PUT", host + "/facts/cinder?cell=cell1", "{}"},
		{"DELETE", host + "/facts/cinder", ""},
	} {
		for name, done := range map[string]bool{"the answer is lost": true, "the call fails": false} {
			t.Run(way[0]+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := twoReplicas(t, nil)
					var copies atomic.Int32
					for _, f := range w.cells {
						fails := func(method string, lost bool) error {
							if method != "SetAdminState" && method != "PutFacts" || lost != done {
								return nil
							}
							copies.Add(1)
							return fault.New(fault.CellUnavailable, "the connection broke")
						}
						f.hook(func(_ context.Context, method string, _ any) error { return fails(method, false) },
							func(method string, _ any) error { return fails(method, true) })
					}
					rec := w.send(way[0], way[1], way[2])
					if n := copies.Load(); n != 1 || rec.Code == 200 || strings.Contains(rec.Body.String(), "STALE_GENERATION") {
						t.Errorf("%d copies; %d %s", n, rec.Code, rec.Body)
					}
				})
			})
		}
	}
}
