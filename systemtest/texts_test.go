package systemtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	"cellgate/internal/norace"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/samples"
)

// texts calls put for every string in a value, with a function that replaces that string.
func texts(v *structpb.Value, path string, put func(path string, set func(string))) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		put(path, func(s string) { k.StringValue = s })
	case *structpb.Value_StructValue:
		for _, key := range slices.Sorted(maps.Keys(k.StructValue.GetFields())) {
			texts(k.StructValue.GetFields()[key], path+"."+key, put)
		}
	case *structpb.Value_ListValue:
		for i, item := range k.ListValue.GetValues() {
			texts(item, fmt.Sprintf("%s[%d]", path, i), put)
		}
	}
}

func countTexts(form *structpb.Struct) int {
	n := 0
	texts(structpb.NewStructValue(form), "", func(string, func(string)) { n++ })
	return n
}

// Any string of Nova's object may be long or contain a NUL. The answer is then a placement,
// NO_VALID_HOST, or an error that names a field: never an unavailable cell or an internal error.
func TestNoTextOfACallerIsTakenForASickCell(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	all, err := samples.All()
	must(t, err)
	var form *structpb.Struct
	for _, s := range all {
		if s.Name == "002-nano-no-disk" {
			form = s.Request.GetNovaRequestSpec()
		}
	}
	if n := countTexts(form); n < 40 {
		t.Fatalf("the sample has %d texts", n)
	}
	synctest.Test(t, func(t *testing.T) {
		w, n := start(t, newNetwork()), 0
		send := func(what string, form *structpb.Struct, mustRefuse bool) {
			n++
			req := &cellgatev1.SelectDestinationsRequest{
				InstanceUuids: []string{uuidOf(0x1, n)}, RequestId: fmt.Sprint("r", n),
				Spec: &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: form},
			}
			resp, err := w.scheduler.SelectDestinations(context.Background(), req)
			var e *fault.Error
			switch {
			case err == nil && mustRefuse:
				t.Errorf("%s: taken", what)
			case err == nil:
				_, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{
					ConsumerUuid: req.GetInstanceUuids()[0], ClaimId: resp.GetDestinations()[0].GetSelected().GetClaimId(),
				})
				must(t, err)
			case errors.As(err, &e) && e.Kind == fault.NoValidHost && !mustRefuse:
			case errors.As(err, &e) && e.Kind == fault.InvalidRequest && len(e.Fields) > 0:
				for _, f := range e.Fields {
					if !strings.HasPrefix(f.Path, "nova_request_spec") {
						t.Errorf("%s: refused by %s: %.200s", what, f.Path, f.Problem)
					}
				}
			default:
				t.Errorf("%s: %.300v", what, err)
			}
		}
		send("as it is", form, false)
		for i := range countTexts(form) {
			for _, bad := range []string{"a\x00b", strings.Repeat("x", 300), strings.Repeat("x", 70_000)} {
				form, k, at := proto.CloneOf(form), -1, ""
				texts(structpb.NewStructValue(form), "", func(path string, set func(string)) {
					if k++; k == i {
						set(bad)
						at = path
					}
				})
				send(fmt.Sprintf("%s = %.5q, %d bytes", at, bad, len(bad)), form, strings.Contains(bad, "\x00"))
			}
		}
	})
}
