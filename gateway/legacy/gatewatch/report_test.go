package gatewatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/rpc"
	"cellgate/schedule"
)

// An operator's admin state replaces Nova's only where no gateway reads Nova.
func TestAdminState_NovaIsRead_KeepsNovas(t *testing.T) {
	served, unserved, elsewhere := rowUUID(0), rowUUID(1), rowUUID(2)
	x := &novadb.Snapshot{Hosts: []novadb.Host{{ServiceID: 3}, {}}}
	x.Hosts[0].UUID, x.Hosts[1].UUID = parsed(served), parsed(unserved)
	read := &Gate{}
	read.rows.Store(&knownRows{Snapshot: x})
	for _, tt := range []struct {
		of   *Gate
		host string
		want bool
	}{{nil, served, false}, {&Gate{}, served, true}, {read, served, true}, {read, unserved, false}, {read, elsewhere, false}} {
		if got := tt.of.KnowsService(tt.host); got != tt.want {
			t.Errorf("of host %s, with rows that %v: %v", tt.host, tt.of, got)
		}
	}
}

// A row that is no usable host is still a compute node of Nova's, so it is reported.
func TestGateReport_RowsThatAreNoHosts_AreReported(t *testing.T) {
	x := &novadb.Snapshot{At: time.Now(), Services: []novadb.Service{{ID: 1, Host: "h1"}, {ID: 2, Host: "h2"}}}
	r := gateReport{}
	r.update(x, x.At, time.Minute)
	x.Unusable = map[int64][]schedule.ID{2: {parsed(rowUUID(7))}}
	if !r.update(x, x.At, time.Minute) || len(r.services[0].GetLeftOutUuids()) != 0 || !slices.Equal(r.services[1].GetLeftOutUuids(), []string{rowUUID(7)}) {
		t.Errorf("got %v", r.services)
	}
	if r.update(x, x.At, time.Minute) {
		t.Error("it is reported again")
	}
}

func TestGateReport_DisabledReason_IsReported(t *testing.T) {
	x := &novadb.Snapshot{At: time.Now(), Services: []novadb.Service{{ID: 1, Host: "h1", Disabled: true, DisabledReason: "a bad\nfan \x00\xff"}}}
	r := gateReport{}
	if !r.update(x, x.At, time.Minute) || r.services[0].GetDisabledReason() != "a bad fan  \uFFFD" {
		t.Errorf("got %q", r.services[0].GetDisabledReason())
	}
	if r.sent = true; r.update(x, x.At, time.Minute) || !r.sent {
		t.Error("the same is reported again")
	}
	x.Services[0].DisabledReason = strings.Repeat("ä", 300)
	if !r.update(x, x.At, time.Minute) || r.sent {
		t.Error("another reason is not reported")
	}
	if got := r.services[0].GetDisabledReason(); utf8.RuneCountInString(got) != maxReason || !strings.HasSuffix(got, "ä…") {
		t.Errorf("a long one: got %q", got)
	}
}

// A service without a host is reported by its id, so that two of them are two.
func TestGateReport_ServiceWithoutHost_IsReportedById(t *testing.T) {
	x := &novadb.Snapshot{At: time.Now(), Services: []novadb.Service{{ID: 7}, {ID: 8}, {ID: 9, Host: "h9"}}}
	r := gateReport{}
	r.update(x, x.At, time.Minute)
	for i, want := range []string{"(no host: row 7 of services)", "(no host: row 8 of services)", "h9"} {
		if got := r.services[i].GetHost(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A nova-compute of bare metal has a compute node for each machine.
func TestGateReport_ServiceOfManyNodes_Accepted(t *testing.T) {
	x := &novadb.Snapshot{At: time.Now(), Services: []novadb.Service{{ID: 1, Host: "ironic1"}}, Unusable: map[int64][]schedule.ID{}}
	for n := range 10_000 {
		x.Hosts = append(x.Hosts, novadb.Host{ServiceID: 1, Host: schedule.Host{UUID: parsed(rowUUID(n))}})
		x.Unusable[1] = append(x.Unusable[1], parsed(rowUUID(10_000+n)))
	}
	r := gateReport{gateway: "g"}
	r.update(x, x.At, time.Minute)
	req := r.request(66, true, false, "")
	if err := rpc.Validate(req); err != nil || len(req.GetServices()[0].GetNodeUuids()) != 10_000 {
		t.Error(err)
	}
}

func rowUUID(n int) string { return fmt.Sprintf("0000000a-0000-4000-8000-%012x", n) }

func parsed(uuid string) schedule.ID {
	id, err := schedule.ParseID(uuid)
	if err != nil {
		panic(err)
	}
	return id
}
