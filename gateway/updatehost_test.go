package gateway

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// adminStates gives the changes of admin states that the cell got.
func (c *testCell) adminStates() []*cellv1.SetAdminStateRequest {
	return got[*cellv1.SetAdminStateRequest](c)
}

func TestUpdateHost_HostOfOneCell_OnlyThatCellGetsIt(t *testing.T) {
	cells := fleet(3, 2)
	var log safeBuffer
	w := startLogged(t, cells, nil, slog.New(slog.NewTextHandler(&log, nil)))
	host, until := testUUID(0xa, 100), time.Now().Add(24*time.Hour).Truncate(time.Second).UTC()
	rec := w.send("PATCH", "/v1/hosts/"+strings.ToUpper(host), `{"admin_state": "MAINTENANCE", "reason": "a kernel", "until": "`+until.Format(time.RFC3339)+`"}`)
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"state":"MAINTENANCE"`) || !strings.Contains(rec.Body.String(), `"by":"an operator"`) {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if len(cells[0].adminStates())+len(cells[2].adminStates()) != 0 || len(cells[1].adminStates()) != 1 {
		t.Fatalf("got %v, %v, %v", cells[0].adminStates(), cells[1].adminStates(), cells[2].adminStates())
	}
	if m := cells[1].adminStates()[0]; m.GetHostUuid() != host || m.GetState() != cellgatev1.HostAdmin_MAINTENANCE || m.GetReason() != "a kernel" || !m.GetUntil().AsTime().Equal(until) || m.GetLasts() != nil {
		t.Errorf("got %v", m)
	}
	if rec := w.send("PATCH", "/v1/hosts/"+host, `{"admin_state": "MAINTENANCE", "reason": "a kernel", "lasts": "7200s", "cell": "cell2"}`); rec.Code != 200 || cells[1].adminStates()[1].GetLasts().AsDuration() != 2*time.Hour {
		t.Errorf("%d %s; got %v", rec.Code, rec.Body, cells[1].adminStates()[1])
	}
	for _, want := range []string{"an operator set the admin state of a host", "state=MAINTENANCE", `reason="a kernel"`, "cell=cell2", "outcome=OK"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
	changes := strings.Count(log.String(), "an operator set")
	if rec := w.send("PATCH", "/v1/hosts/"+host, `{"admin_state": "DISABLED"}`); rec.Code != 400 {
		t.Errorf("without a reason: %d %s", rec.Code, rec.Body)
	}
	if n := strings.Count(log.String(), "an operator set"); n != changes || !strings.Contains(log.String(), "was not set") || !strings.Contains(log.String(), "outcome=INVALID_REQUEST") {
		t.Errorf("of a refused change the log has:\n%s", log.String())
	}
}

func TestUpdateHost_BadFields_AreNamed(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	host := testUUID(0xa, 0)
	for _, tt := range []struct{ path, body, reason, field string }{
		{"/v1/hosts/x", `{"admin_state": "DISABLED", "reason": "r"}`, "NOT_FOUND", ""},
		{"/v1/hosts/" + host, `{"reason": "r"}`, "INVALID_REQUEST", "admin_state"},
		{"/v1/hosts/" + host, `{"admin_state": "BROKEN", "reason": "r"}`, "INVALID_REQUEST", "admin_state"},
		{"/v1/hosts/" + host, `{"admin_state": "DISABLED"}`, "INVALID_REQUEST", "reason"},
		{"/v1/hosts/" + host, `{"admin_state": "DISABLED", "reason": "` + strings.Repeat("r", 256) + `"}`, "INVALID_REQUEST", "reason"},
		{"/v1/hosts/" + host, `{"admin_state": "DISABLED", "reason": "r", "cell": "nowhere"}`, "INVALID_REQUEST", "cell"},
		{"/v1/hosts/" + host, `{"admin_state": "DISABLED", "reason": "r", "enabled": false}`, "INVALID_REQUEST", "enabled"},
		{"/v1/hosts/" + testUUID(0xa, 999), `{"admin_state": "DISABLED", "reason": "r"}`, "NOT_FOUND", ""},
		{"/v1/hosts/" + host, `{"admin_state": "DISABLED", "reason": "r", "cell": "cell2"}`, "NOT_FOUND", ""},
	} {
		rec := w.send("PATCH", tt.path, tt.body)
		if rec.Code == 200 || !strings.Contains(rec.Body.String(), tt.reason) || !strings.Contains(rec.Body.String(), tt.field) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, rec.Code, rec.Body)
		}
	}
}

// If the reply is lost, the error says neither that the change was made nor that it was not.
func TestUpdateHost_AnswerIsLost_OutcomeUnknown(t *testing.T) {
	cells := fleet(1, 1)
	w := start(t, cells, nil)
	cells[0].hook(nil, func(method string, _ any) error {
		if method == "SetAdminState" {
			return status.Error(codes.Unavailable, "the connection broke")
		}
		return nil
	})
	rec := w.send("PATCH", "/v1/hosts/"+testUUID(0xa, 0), `{"admin_state": "MAINTENANCE", "reason": "r", "lasts": "60s"}`)
	if rec.Code != 503 || !strings.Contains(rec.Body.String(), "OUTCOME_UNKNOWN") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
