package gateway

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// overtaken refuses what is said over an older generation, as a cell does.
func (f *fakeCell) overtaken(asOf int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asOf == 0 || asOf >= f.generation {
		return nil
	}
	return fault.New(fault.StaleGeneration, "the host is of generation %d, after %d", f.generation, asOf).With("generation", strconv.FormatInt(f.generation, 10))
}

// said are the generations that what was done names.
func (f *fakeCell) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var over []int64
	for _, w := range f.words {
		over = append(over, w.GetAsOfGeneration())
	}
	for _, p := range f.facts {
		over = append(over, p.GetAsOfGeneration())
	}
	return fmt.Sprint(over)
}

// ways are what may be said of the first host of cell1, with its cell and without.
func ways(query string) [][3]string {
	host := "/v1/hosts/" + testUUID(0xa, 0)
	word := `{"admin_state": "DISABLED", "reason": "r"`
	return [][3]string{
		{"PATCH", host, word + "}"},
		{"PATCH", host, word + `, "cell": "cell1"}`},
		{"PUT", host + "/facts/cinder", "{}"},
		{"PUT", host + "/facts/cinder?cell=cell1", "{}"},
		{"DELETE", host + "/facts/cinder" + query, ""},
	}
}

func TestWhatIsSaidOfAHostNamesWhatItIsSaidOver(t *testing.T) {
	for _, way := range ways("") {
		cells := fleet(2, 1)
		w := start(t, cells, nil)
		cells[0].generation = 7
		if rec := w.send(way[0], way[1], way[2]); rec.Code != 200 || cells[0].said() != "[7]" {
			t.Errorf("%v: %d %s; said over %s", way, rec.Code, rec.Body, cells[0].said())
		}
	}
}

// What another one was faster with is said over that one, while its caller waits.
func TestUpdateHost_Overtaken_SentAgainForTheNewerGeneration(t *testing.T) {
	for _, way := range ways("") {
		synctest.Test(t, func(t *testing.T) {
			cells := fleet(2, 1)
			w := start(t, cells, nil)
			cells[0].generation = 7
			overtake(cells[0], 2)
			if rec := w.send(way[0], way[1], way[2]); rec.Code != 200 || cells[0].said() != "[27]" {
				t.Errorf("%v: %d %s; said over %s", way, rec.Code, rec.Body, cells[0].said())
			}
			overtake(cells[0], 1000)
			if rec := w.send(way[0], way[1], way[2]); rec.Code != 409 || !strings.Contains(rec.Body.String(), "CONTENDED") {
				t.Errorf("%v, overtaken each time: %d %s", way, rec.Code, rec.Body)
			}
		})
	}
}

// overtake has something else said ten generations later before each of the next calls that
// say something.
func overtake(f *fakeCell, times int) {
	f.hook(func(_ context.Context, method string, _ any) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if (method == "SetAdminState" || method == "PutFacts") && times > 0 {
			times--
			f.generation += 10
		}
		return nil
	}, nil)
}

func TestWhoNamesAGenerationHearsThatThereIsANewerOne(t *testing.T) {
	cells := fleet(2, 1)
	w := start(t, cells, nil)
	cells[0].generation = 7
	word := func(generation int) (int, string) {
		rec := w.send("PATCH", "/v1/hosts/"+testUUID(0xa, 0), fmt.Sprintf(`{"admin_state": "DISABLED", "reason": "r", "if_generation": %d}`, generation))
		return rec.Code, rec.Body.String()
	}
	if code, body := word(6); code != 409 || !strings.Contains(body, "STALE_GENERATION") || !strings.Contains(body, `"generation":"7"`) || cells[0].said() != "[]" {
		t.Errorf("%d %s; said over %s", code, body, cells[0].said())
	}
	if code, body := word(9); code != 200 || cells[0].said() != "[9]" {
		t.Errorf("%d %s; said over %s", code, body, cells[0].said())
	}
	if code, body := word(-1); code != 400 || !strings.Contains(body, "if_generation") {
		t.Errorf("%d %s", code, body)
	}
}

// A copy that comes after its caller heard OUTCOME_UNKNOWN, and was answered to something
// else, is refused.
func TestACopyThatComesLateUndoesNoNewerWord(t *testing.T) {
	cells := fleet(1, 1)
	w := start(t, cells, nil)
	cells[0].generation = 7
	var late *cellv1.SetAdminStateRequest
	cells[0].hook(func(_ context.Context, method string, req any) error {
		if method != "SetAdminState" || late != nil {
			return nil
		}
		late = req.(*cellv1.SetAdminStateRequest)
		return status.Error(codes.Unavailable, "the connection broke")
	}, nil)
	host := "/v1/hosts/" + testUUID(0xa, 0)
	if rec := w.send("PATCH", host, `{"admin_state": "DISABLED", "reason": "r"}`); !strings.Contains(rec.Body.String(), "OUTCOME_UNKNOWN") {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.send("PATCH", host, `{"admin_state": "ENABLED"}`); rec.Code != 200 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if _, err := cells[0].SetAdminState(t.Context(), late); fault.KindOf(err) != fault.StaleGeneration {
		t.Errorf("the copy was taken: %v", err)
	}
}

// Without a look nothing is said.
func TestNothingIsSaidOfAHostThatCannotBeLookedAt(t *testing.T) {
	for _, way := range ways("?cell=cell1") {
		cells := fleet(1, 1)
		w := start(t, cells, nil)
		cells[0].hook(func(_ context.Context, method string, _ any) error {
			if method == "ListHosts" {
				return status.Error(codes.Unavailable, "the connection broke")
			}
			return nil
		}, nil)
		if rec := w.send(way[0], way[1], way[2]); rec.Code != 503 || !strings.Contains(rec.Body.String(), "CELL_UNAVAILABLE") || cells[0].said() != "[]" {
			t.Errorf("%v: %d %s; said over %s", way, rec.Code, rec.Body, cells[0].said())
		}
	}
}

// Of what is said of a host one replica gets one copy, whatever became of it: a second one
// would be refused as overtaken by the first, and its caller told that somebody else was
// faster.
func TestWhatIsSaidOfAHostGoesToOneReplica(t *testing.T) {
	host := "/v1/hosts/" + testUUID(0xa, 1)
	for _, way := range [][3]string{
		{"PATCH", host, `{"admin_state": "DISABLED", "reason": "r"}`},
		{"PATCH", host, `{"admin_state": "DISABLED", "reason": "r", "cell": "cell1", "if_generation": 7}`},
		{"PUT", host + "/facts/cinder?cell=cell1", "{}"},
		{"DELETE", host + "/facts/cinder", ""},
	} {
		for name, done := range map[string]bool{"the answer is lost": true, "the call fails": false} {
			t.Run(way[0]+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := twoReplicas(t, nil)
					var copies atomic.Int32
					for _, f := range w.cells {
						f.mu.Lock()
						f.generation = 7
						f.mu.Unlock()
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
