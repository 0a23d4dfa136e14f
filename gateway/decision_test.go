package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/decisions"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// linger is how long a decision waits for others of its cell. retryAfter is how long it waits
// after its cell failed to store it.
const linger, retryAfter = 100 * time.Millisecond, time.Second

// written waits until pending decisions are written, and returns all that the cells keep. It needs a synctest bubble.
func (w *world) written() map[string]*cellgatev1.Decision {
	out := map[string]*cellgatev1.Decision{}
	synctest.Wait()
	pauseFor(linger * 2)
	synctest.Wait()
	for _, c := range w.cells {
		for _, d := range c.decisions() {
			if id := d.GetDecisionId(); !strings.HasPrefix(id, c.name+".") {
				w.t.Errorf("%s keeps decision %s", c.name, id)
			}
			out[d.GetDecisionId()] = d
		}
	}
	return out
}

func pauseFor(d time.Duration) { time.Sleep(d) }

func (w *world) decision(id string) (*cellgatev1.Decision, error) {
	got, err := w.scheduler.GetDecision(context.Background(), &cellgatev1.GetDecisionRequest{DecisionId: id})
	return got.GetDecision(), err
}

// A decision reads the same while it waits for its cell, while it is sent, and once it is written.
func TestDecision_NotWrittenYet_IsReadAsItWillBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
		sent, release := make(chan struct{}), make(chan struct{})
		w.cells[0].hook(func(_ context.Context, _ string, req any) error {
			if _, is := req.(*cellv1.PutDecisionsRequest); is {
				close(sent)
				<-release
			}
			return nil
		}, nil)
		id := w.choose(ask(1, 1)).GetDecisionId()
		read := func() *cellgatev1.Decision {
			d, err := w.decision(id)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		waiting := read()
		<-sent
		onItsWay := read()
		close(release)
		w.written()
		if written := read(); !proto.Equal(waiting, written) || !proto.Equal(onItsWay, written) || len(written.GetRanked()) == 0 {
			t.Errorf("waiting %v\non its way %v\nwritten %v", waiting, onItsWay, written)
		}
	})
}

func TestDecisionOfAnAnswer(t *testing.T) {
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			req := ask(1, 3)
			req.RequestId, req.DryRun, req.ReturnAlternates = "r1", dry, true
			resp := w.choose(req)
			w.written()
			d, err := w.decision(resp.GetDecisionId())
			if err != nil {
				t.Fatal(err)
			}
			if d.GetRequestId() != "r1" || d.GetOperation() != cellgatev1.Operation_BUILD || !slices.Equal(d.GetInstanceUuids(), req.GetInstanceUuids()) ||
				d.GetProjectId() != "p1" || d.GetUserId() != "u1" || d.GetRefusal() != "" || d.GetDryRun() != dry || !d.GetExact() ||
				d.GetRounds() < 1 || d.GetLostRaces() != 0 || d.GetDecidedAt() == nil || d.GetTook() == nil {
				t.Errorf("%v", d)
			}
			for i, x := range d.GetDestinations() {
				if !proto.Equal(x, resp.GetDestinations()[i]) {
					t.Errorf("destination %d: %v", i, x)
				}
			}
			if outcomes(d.GetCells()) != outcomes(resp.GetCells()) {
				t.Errorf("cells %v", d.GetCells())
			}
			if dry {
				return
			}
			// A repeat makes no new decision: the stored one is not overwritten.
			pauseFor(linger)
			w.choose(req)
			if n := w.written(); len(n) != 1 || !proto.Equal(n[resp.GetDecisionId()].GetDecidedAt(), d.GetDecidedAt()) {
				t.Errorf("after the repeat: %v", n)
			}
		})
	}
}

func TestDecisionOfARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		large := ask(1, 1)
		large.GetRequestSpec().Flavor.Vcpus = 400
		w.choose(ask(2, 1))
		for _, tt := range []struct {
			req  *cellgatev1.SelectDestinationsRequest
			kind fault.Kind
			// Cells are the outcomes of the cells. No cell is searched for a consumer that has a claim.
			Cells string
		}{{large, fault.NoValidHost, "cell1 SEARCHED, cell2 SEARCHED"}, {ask(2, 1), fault.AlreadyExists, ""}} {
			e := w.refused(tt.req, tt.kind)
			id := e.Metadata["decision_id"]
			if id == "" {
				t.Fatalf("%s names no decision: %v", tt.kind, e)
			}
			w.written()
			d, err := w.decision(id)
			if err != nil {
				t.Fatal(err)
			}
			if d.GetRefusal() != string(tt.kind) || d.GetMessage() != e.Message || len(d.GetDestinations()) > 0 || outcomes(d.GetCells()) != tt.Cells {
				t.Errorf("%v", d)
			}
			if (d.GetNoValidHost() != nil) != (tt.kind == fault.NoValidHost) {
				t.Errorf("%s: detail %v", tt.kind, d.GetNoValidHost())
			}
		}
	})
}

func TestDecision_OnlyCellAskedDoesNotAnswer_IsKeptInAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		w.trip(1)
		e := w.refused(to(ask(1, 1), "cell2"), fault.CellUnavailable)
		if !strings.HasPrefix(e.Message, "no cell that the request may use answered: cell2 (breaker open since ") || e.Detail != nil {
			t.Errorf("%v, %v", e, e.Detail)
		}
		time.Sleep(time.Minute)
		d, err := w.decision(e.Metadata["decision_id"])
		if err != nil || !strings.HasPrefix(d.GetDecisionId(), "cell1.") || d.GetMessage() != e.Message {
			t.Errorf("%v, %v", d, err)
		}
	})
}

func TestDecisionWithNowhereToWriteIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var mu sync.Mutex
		w := startLogged(t, twoCells(), nil, slog.New(slog.NewTextHandler(&lockedBuf{b: &logged, mu: &mu}, nil)))
		var back []func()
		for _, c := range w.cells {
			back = append(back, c.hang())
		}
		for range 3 {
			if e := w.refused(ask(1, 1), fault.CellUnavailable); e.Metadata["decision_id"] != "" {
				t.Errorf("%v", e.Metadata)
			}
			time.Sleep(time.Minute) // requests a minute apart are counted, too
		}
		if n := w.g.decisions.Counts(); n.Nowhere != 3 || n.Written != 0 {
			t.Errorf("%+v", n)
		}
		lines := func(text string) int {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(logged.String(), text)
		}
		if n := lines("decisions lost"); n != 3 {
			t.Errorf("%d log lines of lost decisions:\n%s", n, &logged)
		}
		for _, back := range back {
			back()
		}
		time.Sleep(time.Minute)
		w.choose(ask(1, 1))
		for _, c := range w.cells {
			defer c.hang()()
		}
		for range 3 {
			w.refused(ask(2, 1), fault.CellUnavailable)
		}
		if n := lines("decisions lost"); n != 4 {
			t.Errorf("%d log lines of lost decisions:\n%s", n, &logged)
		}
	})
}

// A cell that does not store decisions delays no answer, and the queue of decisions is bounded.
func TestDecisionsNeverDelayAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 9))}, func(c *Config) { c.DecisionQueue = 5 })
		release := make(chan struct{})
		w.cells[0].hook(func(ctx context.Context, method string, _ any) error {
			if method == "PutDecisions" {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return nil
		}, nil)
		dry := ask(1, 1)
		dry.DryRun = true
		for range 20 {
			w.choose(dry)
		}
		if n := w.g.decisions.Counts(); n.Dropped != 15 {
			t.Errorf("%+v", n)
		}
		close(release)
		if n := len(w.written()); n != 5 {
			t.Errorf("%d written", n)
		}
		if n := len(got[*cellv1.PutDecisionsRequest](w.cells[0])); n != 1 {
			t.Errorf("%d calls for one batch", n)
		}
	})
}

// takesNone has a cell fail every PutDecisions.
func takesNone(_ context.Context, method string, _ any) error {
	if method == "PutDecisions" {
		return fault.New(fault.CellUnavailable, "no")
	}
	return nil
}

// Decisions that a cell could not store are written once it can.
func TestDecisionsWaitForTheirCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 9))}, nil)
		w.cells[0].hook(takesNone, nil)
		var want []string
		for i := range 3 {
			want = append(want, w.choose(ask(1+i, 1)).GetDecisionId())
			w.written()
		}
		if n := w.g.decisions.Counts(); n != (decisions.Counts{}) {
			t.Errorf("while it takes none: %+v", n)
		}
		w.cells[0].hook(nil, nil)
		pauseFor(retryAfter * 2)
		got := w.written()
		for _, id := range want {
			if got[id] == nil {
				t.Errorf("decision %s is lost", id)
			}
		}
		if n := w.g.decisions.Counts(); n.Written != 3 || n.Failed != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// Each cell has its share of the queue. A cell that stores no decisions keeps its newest, and
// displaces none of another cell.
func TestDecisionsOfAStuckCellKeepToTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), func(c *Config) { c.DecisionQueue = 6 })
		w.cells[0].hook(takesNone, nil)
		dry := func(cell string) string {
			req := to(ask(1, 1), cell)
			req.DryRun = true
			id := w.choose(req).GetDecisionId()
			w.written()
			return id
		}
		var last string
		for range 5 {
			last = dry("cell1")
		}
		if n := w.g.decisions.Counts(); n.Dropped != 2 || n.Failed != 0 {
			t.Errorf("%+v", n)
		}
		for range 4 {
			dry("cell2")
		}
		if n := w.g.decisions.Counts(); n.Written != 4 || n.Dropped != 2 {
			t.Errorf("%+v", n)
		}
		w.cells[0].hook(nil, nil)
		pauseFor(retryAfter * 2)
		if got := w.written(); len(got) != 7 || got[last] == nil {
			t.Errorf("%d are written, the newest is %v", len(got), got[last])
		}
	})
}

// The decision is kept by a cell that it placed instances in, not by a cell that failed before anything was placed.
func TestDecisionIsNotOfTheLostCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 9)), newCell(2, testHost(2, 1))}, nil)
		w.cells[0].hook(func(_ context.Context, method string, _ any) error {
			if method == "ClaimBatch" || method == "PutDecisions" {
				return fault.New(fault.CellUnavailable, "no")
			}
			return nil
		}, nil)
		resp := w.choose(ask(1, 1))
		if len(w.cells[0].queries()) == 0 || resp.GetDestinations()[0].GetSelected().GetCell() != "cell2" {
			t.Fatalf("not a loss: %v", resp)
		}
		if id := resp.GetDecisionId(); !strings.HasPrefix(id, "cell2.") {
			t.Errorf("decision %s", resp.GetDecisionId())
		}
		if w.written()[resp.GetDecisionId()] == nil {
			t.Error("the decision is lost")
		}
		if live := w.cells[1].live(); len(live) != 1 || live[0].GetDecisionId() != resp.GetDecisionId() {
			t.Errorf("%v", live)
		}
	})
}

// Decisions that still wait when the gateway stops are written.
func TestDecisionsAreWrittenAtTheEnd(t *testing.T) {
	cells := twoCells()
	var id string
	t.Run("lifetime", func(t *testing.T) {
		w := start(t, cells, nil)
		id = w.choose(ask(1, 1)).GetDecisionId()
	})
	for _, c := range cells {
		for _, put := range got[*cellv1.PutDecisionsRequest](c) {
			for _, d := range put.GetDecisions() {
				if d.GetDecisionId() == id {
					return
				}
			}
		}
	}
	t.Errorf("decision %s is lost", id)
}

func TestListDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(3, 4), nil)
		var want []string
		for i := range 25 {
			req := ask(1+i, 1)
			req.GetRequestSpec().ProjectId = fmt.Sprintf("p%d", i%2)
			req.RequestId = fmt.Sprintf("r%d", i)
			if i%5 == 0 {
				req.GetRequestSpec().Flavor.Vcpus = 4000
				want = append(want, w.refused(req, fault.NoValidHost).Metadata["decision_id"])
			} else {
				want = append(want, w.choose(req).GetDecisionId())
			}
			pauseFor(linger)
		}
		w.written()
		slices.Reverse(want)
		read := func(req *cellgatev1.ListDecisionsRequest) []string {
			var got []string
			for {
				page, err := w.scheduler.ListDecisions(context.Background(), req)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range page.GetDecisions() {
					got = append(got, d.GetDecisionId())
				}
				if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
					return got
				}
				if len(page.GetDecisions()) == 0 {
					t.Fatal("an empty page with a token")
				}
			}
		}
		for _, short := range []int{0, 1, 2} {
			for _, c := range w.cells {
				c.hook(func(_ context.Context, _ string, req any) error {
					if list, ok := req.(*cellv1.ListDecisionsRequest); ok && short > 0 {
						list.PageSize = min(list.GetPageSize(), int32(short))
					}
					return nil
				}, nil)
			}
			for _, size := range []int32{1, 3, 7, 0} {
				if got := read(&cellgatev1.ListDecisionsRequest{PageSize: size}); !slices.Equal(got, want) {
					t.Errorf("pages of %d, cells' of %d:\n%v\n%v", size, short, got, want)
				}
			}
		}
		times := map[string]*timestamppb.Timestamp{}
		for _, id := range want {
			d, err := w.decision(id)
			if err != nil {
				t.Fatal(err)
			}
			times[d.GetRequestId()] = d.GetDecidedAt()
		}
		first, err := w.decision(want[20]) // request 4
		if err != nil {
			t.Fatal(err)
		}
		chosen := first.GetDestinations()[0].GetSelected()
		// on builds a predicate of i: whether the host that request i chose satisfies is.
		on := func(is func(*cellgatev1.Selection) bool) func(i int) bool {
			return func(i int) bool {
				d, err := w.decision(want[24-i])
				return err == nil && len(d.GetDestinations()) > 0 && is(d.GetDestinations()[0].GetSelected())
			}
		}
		for name, tt := range map[string]struct {
			req  *cellgatev1.ListDecisionsRequest
			keep func(i int) bool
		}{
			"reason, a kind":                     {&cellgatev1.ListDecisionsRequest{Reason: "NO_VALID_HOST"}, func(i int) bool { return i%5 == 0 }},
			"reason, a class":                    {&cellgatev1.ListDecisionsRequest{Reason: "VCPU", ProjectId: "p0"}, func(i int) bool { return i%10 == 0 }},
			"reason, as a list shows it":         {&cellgatev1.ListDecisionsRequest{Reason: "NO_VALID_HOST ResourceFilter(VCPU)"}, func(i int) bool { return i%5 == 0 }},
			"reason, a filter and what it names": {&cellgatev1.ListDecisionsRequest{Reason: "ResourceFilter(VCPU)"}, func(i int) bool { return i%5 == 0 }},
			"reason, of another filter":          {&cellgatev1.ListDecisionsRequest{Reason: "TraitFilter(VCPU)"}, func(int) bool { return false }},
			"reason, another":                    {&cellgatev1.ListDecisionsRequest{Reason: "CONTENDED"}, func(int) bool { return false }},
			"host":                               {&cellgatev1.ListDecisionsRequest{Host: chosen.GetServiceHost()}, on(func(s *cellgatev1.Selection) bool { return s.GetServiceHost() == chosen.GetServiceHost() })},
			"host by uuid":                       {&cellgatev1.ListDecisionsRequest{Host: strings.ToUpper(chosen.GetComputeNodeUuid())}, on(func(s *cellgatev1.Selection) bool { return s.GetServiceHost() == chosen.GetServiceHost() })},
			"host's cell":                        {&cellgatev1.ListDecisionsRequest{HostCell: chosen.GetCell()}, on(func(s *cellgatev1.Selection) bool { return s.GetCell() == chosen.GetCell() })},
			"time":                               {&cellgatev1.ListDecisionsRequest{Since: times["r10"], Until: times["r15"]}, func(i int) bool { return i >= 10 && i < 15 }},
			"time by pages":                      {&cellgatev1.ListDecisionsRequest{Until: times["r15"], PageSize: 2}, func(i int) bool { return i < 15 }},
			"no time":                            {&cellgatev1.ListDecisionsRequest{Since: times["r15"], Until: times["r15"]}, func(int) bool { return false }},
			"all times": {&cellgatev1.ListDecisionsRequest{
				Since: timestamppb.New(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)), Until: timestamppb.New(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)),
			}, func(int) bool { return true }},
			"refused":  {&cellgatev1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_REFUSED}, func(i int) bool { return i%5 == 0 }},
			"placed":   {&cellgatev1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_PLACED}, func(i int) bool { return i%5 != 0 }},
			"dry runs": {&cellgatev1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_DRY_RUN}, func(int) bool { return false }},
			"a trace":  {&cellgatev1.ListDecisionsRequest{TraceId: "4bf92f3577b34da6a3ce929d0e0e4736"}, func(int) bool { return false }},
			"project":  {&cellgatev1.ListDecisionsRequest{ProjectId: "p1"}, func(i int) bool { return i%2 == 1 }},
			"request":  {&cellgatev1.ListDecisionsRequest{RequestId: "r7"}, func(i int) bool { return i == 7 }},
			"instance": {&cellgatev1.ListDecisionsRequest{InstanceUuid: strings.ToUpper(testUUID(0x1, 4))}, func(i int) bool { return i == 3 }},
		} {
			var some []string
			for k, id := range want {
				if tt.keep(24 - k) {
					some = append(some, id)
				}
			}
			if got := read(tt.req); !slices.Equal(got, some) {
				t.Errorf("%s:\n%v\n%v", name, got, some)
			}
		}
		back := w.cells[1].hang()
		page, err := w.scheduler.ListDecisions(context.Background(), &cellgatev1.ListDecisionsRequest{})
		if err != nil || !slices.Equal(page.GetUnavailableCells(), []string{"cell2"}) || len(page.GetDecisions()) == 0 {
			t.Errorf("%v, %v", page, err)
		}
		back()
	})
}

func TestDecisionRefusals(t *testing.T) {
	w := start(t, twoCells(), nil)
	const id = "01JAB2C3D4E5F6G7H8J9KMNPQR"
	for _, tt := range []struct {
		path  string
		code  int
		want  fault.Kind
		field string
	}{
		{"/v1/decisions/cell1." + id, http.StatusNotFound, fault.NotFound, ""},
		{"/v1/decisions/cell9." + id, http.StatusNotFound, fault.NotFound, ""},
		{"/v1/decisions/" + id, http.StatusBadRequest, fault.InvalidRequest, "decision_id"},
		{"/v1/decisions/cell1.x", http.StatusBadRequest, fault.InvalidRequest, "decision_id"},
		{"/v1/decisions?cell=cell9", http.StatusBadRequest, fault.InvalidRequest, "cell"},
		{"/v1/decisions?instance_uuid=x", http.StatusBadRequest, fault.InvalidRequest, "instance_uuid"},
		{"/v1/decisions?page_token=x", http.StatusBadRequest, fault.InvalidRequest, "page_token"},
		{"/v1/decisions?page_size=1001", http.StatusBadRequest, fault.InvalidRequest, "page_size"},
		{"/v1/decisions?since=yesterday", http.StatusBadRequest, fault.InvalidRequest, "since"},
		{"/v1/decisions?since=0000-01-01T00:00:00Z", http.StatusBadRequest, fault.InvalidRequest, "since"},
		{"/v1/decisions?outcome=perhaps", http.StatusBadRequest, fault.InvalidRequest, "outcome"},
		{"/v1/decisions?nothing=1", http.StatusBadRequest, fault.InvalidRequest, "nothing"},
	} {
		rec := w.send("GET", tt.path, "")
		p := problemOf(t, rec)
		if rec.Code != tt.code || p.Reason != tt.want || tt.field != "" && !slices.Equal(p.fields(), []string{tt.field}) {
			t.Errorf("%s: %d %v", tt.path, rec.Code, p)
		}
	}
	_, err := w.decision("cell9." + id)
	mustFail(t, nil, err, fault.NotFound)
	_, err = w.decision("x")
	mustFail(t, nil, err, fault.InvalidRequest)
	_, err = w.scheduler.ListDecisions(context.Background(), &cellgatev1.ListDecisionsRequest{Cell: "cell9"})
	mustFail(t, nil, err, fault.InvalidRequest)
	w.servers[0].Stop()
	_, err = w.decision("cell1." + id)
	if e := mustFail(t, nil, err, fault.CellUnavailable); e.Metadata["cells"] != "cell1" {
		t.Errorf("%v", e.Metadata)
	}
}
