package gateway

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// One host that the cell alone offers is found and named, however far down it stands, and
// though as many hosts have claims under way: the numbers of hosts that pass are the same.
func TestShadowFindsOneHostBesideABusyOne(t *testing.T) {
	const hosts, wrong, busy = 3 * askedHosts, 1, 2
	for _, c := range []struct {
		name     string
		disabled func(n int) (native, rows bool)
		want     string
	}{
		{"offered by the cell alone", func(n int) (bool, bool) { return n == busy, n == wrong }, "host001 passes by the cell's table, and not by the legacy rows"},
		{"offered by the rows alone", func(n int) (bool, bool) { return n == wrong, n == busy }, "host001 passes by the legacy rows, and not by the cell's table"},
		{"the busy one differs", func(n int) (bool, bool) { return n == busy, false }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var native, rows []schedule.Host
				for n := 1; n <= hosts; n++ {
					of, in := testHost(n, n), testHost(n, n)
					of.Disabled, in.Disabled = c.disabled(n)
					native, rows = append(native, of), append(rows, in)
				}
				_, f, _ := shadowing(t, native, rows)
				f.mu.Lock()
				f.gate.awaited = []*cellv1.AwaitedClaim{{ClaimId: "c", HostUuid: rows[busy-1].UUID.String()}}
				f.mu.Unlock()
				time.Sleep(20 * time.Second)
				compared, differed, examples := f.toldOf()
				other := func(e *cellgatev1.ShadowDifference) bool { return e.GetDetail() != c.want }
				if compared == 0 || (differed > 0) != (c.want != "") || slices.ContainsFunc(examples, other) {
					t.Errorf("%d compared, %d differed: %v", compared, differed, examples)
				}
			})
		})
	}
}

// Of a cell of before, which does not say which hosts pass, the numbers are compared.
func TestShadowOfACellThatDoesNotSayWhichHostsPass(t *testing.T) {
	for n, want := range map[int]string{1: "hosts pass by the legacy rows, ", 0: ""} {
		synctest.Test(t, func(t *testing.T) {
			var rows []schedule.Host
			for k := range 2 * askedHosts {
				rows = append(rows, testHost(k+1, k+1))
			}
			_, f, _ := shadowing(t, rows[n:], rows)
			f.mu.Lock()
			f.older = true
			f.mu.Unlock()
			time.Sleep(20 * time.Second)
			compared, differed, examples := f.toldOf()
			if compared == 0 || (differed > 0) != (want != "") {
				t.Errorf("%d compared, %d differed: %v", compared, differed, examples)
			}
			for _, e := range examples {
				if !strings.Contains(e.GetDetail(), want) {
					t.Errorf("it was told %q", e.GetDetail())
				}
			}
		})
	}
}
