package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func pathsOf(e *fault.Error) []string {
	var out []string
	for _, f := range e.Fields {
		out = append(out, f.Path)
	}
	return out
}

// A text with a NUL is refused by its field in either form, before any cell is asked.
func TestNULsAreRefusedByTheirField(t *testing.T) {
	w := start(t, twoCells(), nil)
	w.cells[0].hook(func(_ context.Context, method string, _ any) error {
		if method != "GetSummary" {
			t.Errorf("a cell was asked: %s", method)
		}
		return nil
	}, nil)
	for path, change := range map[string]func(*cellgatev1.SelectDestinationsRequest){
		"request_id":              func(r *cellgatev1.SelectDestinationsRequest) { r.RequestId = "a\x00b" },
		"request_spec.project_id": func(r *cellgatev1.SelectDestinationsRequest) { r.GetRequestSpec().ProjectId = "\x00" },
		"request_spec.user_id":    func(r *cellgatev1.SelectDestinationsRequest) { r.GetRequestSpec().UserId = "u\x00" },
		`request_spec.flavor.extra_specs["k"]`: func(r *cellgatev1.SelectDestinationsRequest) {
			r.GetRequestSpec().Flavor.ExtraSpecs = map[string]string{"k": "\x00"}
		},
		`request_spec.image.properties["k\x00"]`: func(r *cellgatev1.SelectDestinationsRequest) {
			r.GetRequestSpec().Image = &cellgatev1.Image{Properties: map[string]string{"k\x00": "v"}}
		},
		`request_spec.scheduler_hints["h"].values[1]`: func(r *cellgatev1.SelectDestinationsRequest) {
			r.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"h": {Values: []string{"", "\x00"}}}
		},
	} {
		req := ask(1, 1)
		req.DryRun = true
		change(req)
		if e := w.refused(req, fault.InvalidRequest); !slices.Equal(pathsOf(e), []string{path}) {
			t.Errorf("%s: %q", path, pathsOf(e))
		}
	}
	form, err := structpb.NewStruct(map[string]any{
		"nova_object.name": "RequestSpec", "nova_object.data": map[string]any{
			"project_id": "p\x00", "flavor": map[string]any{"nova_object.data": map[string]any{"flavorid": "\x00"}}, "x": []any{"", "\x00"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	req := ask(1, 1)
	req.Spec = &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: form}
	want := []string{"nova_request_spec.flavor.flavorid", "nova_request_spec.project_id", "nova_request_spec.x[1]"}
	if e := w.refused(req, fault.InvalidRequest); !slices.Equal(pathsOf(e), want) {
		t.Errorf("%q", pathsOf(e))
	}
	if got := w.send(http.MethodGet, "/v1/claims?project_id=%00", ""); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), `"project_id"`) {
		t.Errorf("REST: %d %s", got.Code, got.Body)
	}
	_, err = w.claims.ListClaims(t.Context(), &cellgatev1.ListClaimsRequest{PageToken: cellclient.PageToken{List: cellclient.ListName(&cellgatev1.ListClaimsRequest{}), Cell: "cell1", After: "\x00"}.String()})
	if e := mustFail(t, nil, err, fault.InvalidRequest); !slices.Equal(pathsOf(e), []string{"page_token"}) {
		t.Errorf("%v", e)
	}
}

// A claim_id that cannot exist is refused by the API with the schema's text.
func TestClaimIDsAreVisibleASCII(t *testing.T) {
	w := start(t, twoCells(), nil)
	for _, id := range []string{"é", "a b", "a\x00", strings.Repeat("x", 65)} {
		_, released := w.claims.ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: id})
		_, confirmed := w.claims.ConfirmClaim(t.Context(), &cellgatev1.ConfirmClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: id})
		for _, err := range []error{released, confirmed} {
			e := mustFail(t, nil, err, fault.InvalidRequest)
			if !slices.Equal(pathsOf(e), []string{"claim_id"}) || strings.Contains(e.Message, "cell") || strings.Contains(e.Message, "255") {
				t.Errorf("%q: %v", id, e)
			}
		}
	}
	for _, c := range w.cells {
		if did := c.did(); len(did) > 0 {
			t.Errorf("%s did %q", c.name, did)
		}
	}
}

// A cell stores all decisions of a batch or none. A decision that it never takes costs no other decision.
func TestADecisionThatIsRefusedIsLostAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells()[:1], nil)
		w.cells[0].hook(func(_ context.Context, method string, req any) error {
			if method != "PutDecisions" {
				return nil
			}
			for i, d := range req.(*cellv1.PutDecisionsRequest).GetDecisions() {
				if slices.ContainsFunc(d.GetTerms(), func(term string) bool { return strings.HasPrefix(term, "request:bad") }) {
					return fault.Invalid(fmt.Sprintf("decisions[%d].terms", i), "has a NUL")
				}
			}
			return nil
		}, nil)
		const n = 60
		for i := range n {
			req := ask(1+i, 1)
			req.DryRun, req.RequestId = true, fmt.Sprint("good", i)
			if i%20 == 7 {
				req.RequestId = fmt.Sprint("bad", i)
			}
			w.choose(req)
		}
		if got := w.written(); len(got) != n-3 {
			t.Errorf("%d decisions are kept, want %d", len(got), n-3)
		}
		if c := w.g.decisions.Counts(); c.Written != n-3 || c.Failed != 3 || c.Dropped != 0 {
			t.Errorf("%+v", c)
		}
	})
}

// An error about many texts below a long name costs no more than the request.
func TestNULs_ManyBelowALongName_FewAreNamed(t *testing.T) {
	values := make([]any, 6000)
	for i := range values {
		values[i] = "\x00"
	}
	form, err := structpb.NewStruct(map[string]any{"nova_object.data": map[string]any{
		"scheduler_hints": map[string]any{strings.Repeat("h", 50_000): values},
	}})
	if err != nil {
		t.Fatal(err)
	}
	req := ask(1, 1)
	req.Spec = &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: form}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = checkTexts(req)
	runtime.ReadMemStats(&after)
	var e *fault.Error
	if !errors.As(err, &e) || len(e.Fields) != maxNamedTexts {
		t.Fatalf("%d fields of %v", len(e.Fields), fault.KindOf(err))
	}
	if size := after.TotalAlloc - before.TotalAlloc; size > 1<<20 || len(e.Fields[0].Path) > 200 {
		t.Errorf("%d bytes for an error of %d fields, the first at a path of %d", size, len(e.Fields), len(e.Fields[0].Path))
	}
}
