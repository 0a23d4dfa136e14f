package rest

import (
	"strings"
	"testing"
)

func TestScanJSON_Bounds_NameTheField(t *testing.T) {
	deep := func(n int) string {
		return `{"x": "[[\"[", "nova_request_spec":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	many := func(n int) string {
		return `{"x": ",,,", "nova_request_spec":{"a":[` + strings.Repeat("0,", n) + "0]}}"
	}
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"deep": {deep(maxBodyDepth - 1), ""}, "too deep": {deep(maxBodyDepth), "nova_request_spec: nests"},
		"far too deep": {deep(2_000_000), "nova_request_spec: nests"},
		"many":         {many(maxValues - 10), ""}, "too many": {many(maxValues), "nova_request_spec: with it"},
		"no end": {`{"a": "\`, ""},
	} {
		_, err := scanJSON([]byte(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
