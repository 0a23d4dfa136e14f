package bus

import (
	"strings"
	"testing"
	"time"
)

func TestDecodeRequest_RecordedCall_HasItsFields(t *testing.T) {
	r := recordings(t)["boot"].request(t)
	if r.Method != "select_destinations" || r.Version != "4.5" || r.Timeout != time.Minute || !r.awaitsReply() || len(r.UniqueID) != 32 ||
		!strings.HasPrefix(r.APIRequest, "req-") || r.Project == "" || len(r.Args) != 4 {
		t.Errorf("%+v", r)
	}
}

func TestDecodeRequest_NoMessageOfOslo_IsRefused(t *testing.T) {
	for _, body := range []string{
		"", "not JSON", "null", "[]", `"x"`, "{}", `{"method": 1}`, `{"method": ""}`, `{"method": "x", "args": []}`,
		`{"oslo.version": "2.0", "oslo.message": "not JSON"}`, `{"oslo.version": "2.0", "oslo.message": {"method": "x"}}`,
		`{"oslo.version": "3.0", "oslo.message": "{\"method\": \"x\"}"}`, `{"oslo.version": null, "oslo.message": null}`,
		`{"method": "x", "_reply_q": "` + strings.Repeat("q", 256) + `"}`, "\x1f\x8b\x08", `{"method": NaN}`,
	} {
		if r, err := decodeRequest([]byte(body)); err == nil {
			t.Errorf("%.60s: %+v", body, r)
		}
	}
	if r, err := decodeRequest([]byte(`{"method": "x"}`)); err != nil || r.Version != "1.0" || r.awaitsReply() {
		t.Errorf("without an envelope: %+v %v", r, err)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add(r.body(f))
	}
	f.Add([]byte(`{"method": "x", "_timeout": 1e300, "args": null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := decodeRequest(body)
		if err != nil {
			return
		}
		if r.Method == "" || len(r.ReplyQueue) > maxName || r.Timeout < 0 || r.Timeout != 0 && r.Timeout < 2*time.Second {
			t.Errorf("%+v", r)
		}
		if _, failed := readArguments(r); failed != nil {
			failed.encode()
		}
	})
}
