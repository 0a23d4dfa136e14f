package gateway

import (
	"context"
	"strings"
	"testing"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A page token is valid for its own list only: in another list it would silently skip rows.
func TestPageTokensAreBoundToTheirList(t *testing.T) {
	w := start(t, fleet(2, 3), nil)
	ctx := context.Background()
	first, err := w.hosts.ListHosts(ctx, &cellgatev1.ListHostsRequest{NameContains: "host", PageSize: 4})
	if err != nil || first.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", first, err)
	}
	token := first.GetNextPageToken()
	for _, req := range []*cellgatev1.ListHostsRequest{
		{},
		{NameContains: "hos"},
		{NameContains: "host", Cell: "cell2"},
		{NameContains: "host", AvailabilityZone: "nova"},
		{NameContains: "host", Trait: "CUSTOM_X"},
	} {
		req.PageToken = token
		resp, err := w.hosts.ListHosts(ctx, req)
		if e := mustFail(t, resp, err, fault.InvalidRequest); e.Fields[0].Path != "page_token" {
			t.Errorf("%v: %v", req, e)
		}
	}
	claims, err := w.claims.ListClaims(ctx, &cellgatev1.ListClaimsRequest{PageToken: token})
	if e := mustFail(t, claims, err, fault.InvalidRequest); e.Fields[0].Path != "page_token" {
		t.Errorf("claims: %v", e)
	}
	rest := w.send("GET", "/v1/claims?page_token="+token, "")
	if p := problemOf(t, rest); rest.Code != 400 || len(p.fields()) != 1 || p.fields()[0] != "page_token" {
		t.Errorf("%d %s", rest.Code, rest.Body)
	}
	// Another size of page is the same list.
	second, err := w.hosts.ListHosts(ctx, &cellgatev1.ListHostsRequest{NameContains: "host", PageSize: 1, PageToken: token})
	if err != nil || len(second.GetHosts()) != 1 || second.GetHosts()[0].GetServiceHost() != "host101" {
		t.Errorf("%v, %v", second, err)
	}
}

// Selections, hosts and cells call the default zone by the same name.
func TestTheDefaultZoneIsOneNameEverywhere(t *testing.T) {
	w := start(t, fleet(1, 2), func(c *Config) { c.DefaultAvailabilityZone = "main" })
	ctx := context.Background()
	if z := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected().GetAvailabilityZone(); z != "main" {
		t.Errorf("selected in zone %q", z)
	}
	hosts, err := w.hosts.ListHosts(ctx, &cellgatev1.ListHostsRequest{AvailabilityZone: "main"})
	if err != nil || len(hosts.GetHosts()) != 2 || hosts.GetHosts()[0].GetAvailabilityZone() != "main" {
		t.Errorf("hosts of the zone: %v, %v", hosts, err)
	}
	host, err := w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)})
	if err != nil || host.GetHost().GetAvailabilityZone() != "main" {
		t.Errorf("host: %v, %v", host, err)
	}
	cells, err := w.cellsAPI.ListCells(ctx, &cellgatev1.ListCellsRequest{})
	if err != nil || strings.Join(cells.GetCells()[0].GetAvailabilityZones(), ",") != "main" {
		t.Errorf("cells: %v, %v", cells, err)
	}
}
