package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

func down(context.Context, string, any) error { return errors.New("down") }

func fleet(cells, hostsEach int) []*testCell {
	var out []*testCell
	for c := range cells {
		var hosts []schedule.Host
		for h := range hostsEach {
			hosts = append(hosts, testHost(c*100+h, 1))
		}
		out = append(out, newCell(c+1, hosts...))
	}
	return out
}

func TestListHostsPagesOverCells(t *testing.T) {
	w := start(t, fleet(3, 5), nil)
	for _, size := range []int32{1, 2, 4, 5, 7, 15, 100} {
		var names []string
		token := ""
		for page := 0; ; page++ {
			if page > 20 {
				t.Fatalf("size %d: no end", size)
			}
			resp, err := w.hosts.ListHosts(context.Background(), &cellgatev1.ListHostsRequest{PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			if len(resp.GetHosts()) > int(size) {
				t.Errorf("page of %d, not %d", len(resp.GetHosts()), size)
			}
			for _, h := range resp.GetHosts() {
				names = append(names, h.GetServiceHost())
			}
			if token = resp.GetNextPageToken(); token == "" {
				break
			}
		}
		if len(names) != 15 || !slices.IsSorted(names) || len(slices.Compact(names)) != 15 {
			t.Errorf("size %d: %v", size, names)
		}
	}
}

func TestListsNameCellsThatDoNotAnswer(t *testing.T) {
	w := start(t, fleet(3, 2), nil)
	w.choose(ask(1, 6))
	w.cells[1].hook(down, nil)
	hosts, err := w.hosts.ListHosts(context.Background(), &cellgatev1.ListHostsRequest{})
	if err != nil || len(hosts.GetHosts()) != 4 || !slices.Equal(hosts.GetUnavailableCells(), []string{"cell2"}) {
		t.Errorf("hosts: %v, %v", hosts, err)
	}
	claims, err := w.claims.ListClaims(context.Background(), &cellgatev1.ListClaimsRequest{})
	if err != nil || len(claims.GetClaims()) != 4 || !slices.Equal(claims.GetUnavailableCells(), []string{"cell2"}) {
		t.Errorf("claims: %v, %v", claims, err)
	}
	cells, err := w.cellsAPI.ListCells(context.Background(), &cellgatev1.ListCellsRequest{})
	if err != nil || len(cells.GetCells()) != 3 {
		t.Fatalf("cells: %v, %v", cells, err)
	}
	for i, c := range cells.GetCells() {
		if c.GetAvailable() != (i != 1) || (c.GetReason() != "") != (i == 1) || !c.GetEnabled() ||
			c.GetCell() != w.cells[i].name || c.GetCellUuid() != w.cells[i].uuid || len(c.GetReplicas()) != 1 {
			t.Errorf("cell %v", c)
		}
		// The last answer of the silent cell is shown, with the time of that answer.
		if c.GetHosts() != 2 || len(c.GetResources()) == 0 || len(c.GetAvailabilityZones()) == 0 || (c.GetAnsweredAt() != nil) != (i == 1) {
			t.Errorf("numbers of cell %v", c)
		}
	}
}

func TestListClaimsFiltersAndPages(t *testing.T) {
	w := start(t, fleet(2, 2), nil)
	w.choose(ask(1, 4))
	other := ask(10, 1)
	other.GetRequestSpec().ProjectId = "p2"
	w.choose(other)
	var ids []string
	token := ""
	for {
		resp, err := w.claims.ListClaims(context.Background(), &cellgatev1.ListClaimsRequest{ProjectId: "p1", PageSize: 3, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.GetClaims() {
			ids = append(ids, c.GetCell()+" "+c.GetClaimId())
		}
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(ids) != 4 || !slices.IsSorted(ids) {
		t.Errorf("%v", ids)
	}
	one, err := w.claims.ListClaims(context.Background(), &cellgatev1.ListClaimsRequest{Cell: "cell2", HostUuid: strings.ToUpper(testUUID(0xa, 100))})
	if err != nil || len(one.GetClaims()) == 0 {
		t.Errorf("%v, %v", one, err)
	}
	for _, c := range one.GetClaims() {
		if c.GetHostUuid() != testUUID(0xa, 100) {
			t.Errorf("claim on %s", c.GetHostUuid())
		}
	}
}

func TestBadPageTokens(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	list := cellclient.ListName(&cellgatev1.ListHostsRequest{})
	for _, token := range []string{"!", "bm9wZQ", cellclient.PageToken{List: list, Cell: "cell9"}.String(), cellclient.PageToken{Cell: "cell1"}.String()} {
		resp, err := w.hosts.ListHosts(context.Background(), &cellgatev1.ListHostsRequest{PageToken: token})
		if e := mustFail(t, resp, err, fault.InvalidRequest); e.Fields[0].Path != "page_token" {
			t.Errorf("%v", e)
		}
	}
	resp, err := w.hosts.ListHosts(context.Background(), &cellgatev1.ListHostsRequest{Cell: "cell9"})
	if e := mustFail(t, resp, err, fault.InvalidRequest); e.Fields[0].Path != "cell" || !strings.Contains(e.Message, "cell1, cell2") {
		t.Errorf("%v", e)
	}
}

func TestGetIsNotFoundOnlyWhenAllCellsAnswered(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	d := w.choose(ask(1, 1)).GetDestinations()[0]
	ctx := context.Background()
	got, err := w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: strings.ToUpper(testUUID(0x1, 1))})
	if err != nil || got.GetClaim().GetClaimId() != d.GetSelected().GetClaimId() {
		t.Fatalf("%v, %v", got, err)
	}
	host, err := w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 100)})
	if err != nil || host.GetHost().GetCell() != "cell2" {
		t.Fatalf("%v, %v", host, err)
	}
	none := &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 99)}
	got, err = w.claims.GetClaim(ctx, none)
	mustFail(t, got, err, fault.NotFound)
	host, err = w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 99)})
	mustFail(t, host, err, fault.NotFound)
	cell, err := w.cellsAPI.GetCell(ctx, &cellgatev1.GetCellRequest{Cell: "cell9"})
	mustFail(t, cell, err, fault.NotFound)

	w.cells[1].hook(down, nil)
	got, err = w.claims.GetClaim(ctx, none)
	if e := mustFail(t, got, err, fault.CellUnavailable); !strings.Contains(e.Message, "cell2") {
		t.Errorf("%v", e)
	}
	host, err = w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 99)})
	mustFail(t, host, err, fault.CellUnavailable)
	// Asking one cell needs that cell only.
	none.Cell = "cell1"
	got, err = w.claims.GetClaim(ctx, none)
	mustFail(t, got, err, fault.NotFound)
	// A host in another cell is found all the same.
	if _, err := w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 0)}); err != nil {
		t.Error(err)
	}
	shown, err := w.cellsAPI.GetCell(ctx, &cellgatev1.GetCellRequest{Cell: "cell2"})
	if err != nil || shown.GetCell().GetAvailable() || shown.GetCell().GetReason() == "" {
		t.Errorf("%v, %v", shown, err)
	}
}

func TestConfirm(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	ctx := context.Background()
	d := w.choose(ask(1, 1)).GetDestinations()[0]
	req := &cellgatev1.ConfirmClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: d.GetSelected().GetClaimId()}
	for range 2 {
		got, err := w.claims.ConfirmClaim(ctx, req)
		if err != nil || got.GetClaim().GetState() != cellgatev1.ClaimState_CONFIRMED || got.GetClaim().GetExpiresAt() != nil {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if _, err := w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: req.ConsumerUuid, ClaimId: req.ClaimId}); err != nil {
		t.Fatal(err)
	}
	got, err := w.claims.ConfirmClaim(ctx, req)
	mustFail(t, got, err, fault.ClaimExpired)
	unknown := &cellgatev1.ConfirmClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: "nope"}
	got, err = w.claims.ConfirmClaim(ctx, unknown)
	mustFail(t, got, err, fault.NotFound)
	w.cells[0].hook(down, nil)
	got, err = w.claims.ConfirmClaim(ctx, unknown)
	mustFail(t, got, err, fault.CellUnavailable)
}

func TestReleaseGoesWhereTheClaimIs(t *testing.T) {
	w := start(t, fleet(2, 1), nil)
	ctx := context.Background()
	d := w.choose(ask(1, 1)).GetDestinations()[0]
	has, other := w.cells[0], w.cells[1]
	if d.GetSelected().GetCell() == "cell2" {
		has, other = other, has
	}
	req := &cellgatev1.ReleaseClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: d.GetSelected().GetClaimId()}
	if _, err := w.claims.ReleaseClaim(ctx, req); err != nil {
		t.Fatal(err)
	}
	if w.liveClaims() != 0 || len(other.did()) != 0 || len(has.did()) != 2 {
		t.Errorf("%s did %v, %s did %v", has.name, has.did(), other.name, other.did())
	}
	// Before the claim: a tombstone in every cell.
	early := &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(0x1, 5), ClaimId: "early"}
	if _, err := w.claims.ReleaseClaim(ctx, early); err != nil {
		t.Fatal(err)
	}
	for _, c := range w.cells {
		if c.claim("early") == nil {
			t.Errorf("no tombstone in %s", c.name)
		}
	}
	has.hook(down, nil)
	early.ClaimId = "early2"
	resp, err := w.claims.ReleaseClaim(ctx, early)
	if e := mustFail(t, resp, err, fault.CellUnavailable); !strings.Contains(e.Message, has.name) {
		t.Errorf("%v", e)
	}
}

// A disabled cell gets no new claims. Its claims can still be read and ended.
func TestDisabledCellIsStillServed(t *testing.T) {
	w := start(t, fleet(1, 1), func(c *Config) { c.Cells[0].Disabled = true })
	w.refused(ask(1, 1), fault.NoValidHost)
	claim := w.cells[0].fill(0, 1)
	ctx := context.Background()
	if got, err := w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: claim.GetConsumerUuid()}); err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: claim.GetConsumerUuid(), ClaimId: claim.GetClaimId()}); err != nil {
		t.Error(err)
	}
	cells, err := w.cellsAPI.ListCells(ctx, &cellgatev1.ListCellsRequest{})
	if err != nil || cells.GetCells()[0].GetEnabled() || !cells.GetCells()[0].GetAvailable() || w.liveClaims() != 0 {
		t.Errorf("%v, %v", cells, err)
	}
}
