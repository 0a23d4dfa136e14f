package rest

import (
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The same answer has the same bytes in every build, although protojson alone varies its blanks.
func TestJSONForm_Marshal_IsCompact(t *testing.T) {
	form := jsonForm{runtime.JSONPb{MarshalOptions: protojson.MarshalOptions{UseProtoNames: true, Multiline: true}}}
	got, err := form.Marshal(&cellgatev1.Cell{Cell: "a, b: c", Hosts: 3})
	if err != nil || string(got) != `{"cell":"a, b: c","hosts":3}` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestFieldAt_Offset_GivesThePath(t *testing.T) {
	const text = `{"a": {"b": [1, {"c": "x"}], "d": {}}, "é": [[2, 3]], "f": null}`
	for at, want := range map[string]string{
		`"a"`: "a", `"b"`: "a.b", "1": "a.b[0]", `"c"`: "a.b[1].c", `"x"`: "a.b[1].c", `"d"`: "a.d", `"é"`: "é",
		"2": "é[0][0]", "3": "é[0][1]", `"f"`: "f", "null": "f",
	} {
		if got := fieldAt([]byte(text), int64(strings.Index(text, at))); got != want {
			t.Errorf("at %s: %q, want %q", at, got, want)
		}
	}
}
