package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"cellgate/gateway/rest"
)

// Decoding a 4 MB body of many values takes 260 MiB, so such a body is refused before it is decoded.
func TestREST_ManyValues_RefusedBeforeDecoding(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	body := fmt.Sprintf(`{"instance_uuids": ["%s"], "nova_request_spec": {"a":[%s0]}}`, testUUID(0x1, 1), strings.Repeat("0,", rest.MaxBody/2-200))
	got := w.send(http.MethodPost, "/v1/select_destinations", body)
	if p := problemOf(t, got); got.Code != http.StatusBadRequest || !strings.Contains(p.Message, "values") {
		t.Errorf("%d %.300s", got.Code, got.Body)
	}
}
