package neutron

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/errgroup"

	"cellgate/internal/fault"
	"cellgate/internal/keystone"
	"cellgate/schedule/nova"
)

const (
	// callsAtOnce bounds the calls of one request: a network may have a segment for each rack.
	callsAtOnce = 8
	// aggregatesVersion is the microversion of Placement with which Nova asks for aggregates.
	aggregatesVersion = "placement 1.19"
)

// Segments finds the aggregates of segments by Neutron and Placement. Safe for concurrent use.
type Segments struct{ Neutron, Placement *keystone.Service }

// Aggregates gives a set of aggregates for each routed network: a host must be in one aggregate of each set. A port
// with addresses is in the segment of its first one. The error is INVALID_REQUEST for an object that does not exist,
// and CELL_UNAVAILABLE if a service does not answer.
func (s *Segments) Aggregates(ctx context.Context, networks []nova.RequestedNetwork) ([][]string, error) {
	sets := make([][]string, len(networks))
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(callsAtOnce)
	for i, n := range networks {
		calls.Go(func() (err error) {
			sets[i], err = s.aggregatesOf(ctx, n)
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(sets, func(set []string) bool { return len(set) == 0 }), nil
}

func (s *Segments) aggregatesOf(ctx context.Context, n nova.RequestedNetwork) ([]string, error) {
	network, subnet := n.Network, ""
	if n.Port != "" {
		var got struct {
			Port struct {
				Network  string `json:"network_id"`
				FixedIPs []struct {
					Subnet string `json:"subnet_id"`
				} `json:"fixed_ips"`
			} `json:"port"`
		}
		if err := get(ctx, s.Neutron, n.Path, "", "v2.0/ports/"+url.PathEscape(n.Port), &got); err != nil {
			return nil, err
		}
		network = got.Port.Network
		if len(got.Port.FixedIPs) > 0 {
			subnet = got.Port.FixedIPs[0].Subnet
		}
	}
	query := url.Values{"network_id": {network}}
	if subnet != "" {
		query = url.Values{"id": {subnet}}
	}
	query["fields"] = []string{"segment_id"}
	var got struct {
		Subnets []struct {
			Segment string `json:"segment_id"`
		} `json:"subnets"`
	}
	if err := get(ctx, s.Neutron, n.Path, "", "v2.0/subnets?"+query.Encode(), &got); err != nil {
		return nil, err
	}
	var out []string
	for _, of := range got.Subnets {
		if of.Segment == "" {
			continue // not routed
		}
		var got struct {
			Aggregates []string `json:"aggregates"`
		}
		err := get(ctx, s.Placement, n.Path, aggregatesVersion, "resource_providers/"+url.PathEscape(of.Segment)+"/aggregates", &got)
		if err == nil && len(got.Aggregates) == 0 {
			err = fault.Invalid(n.Path, "Placement has no aggregate of segment %s: Neutron makes it when the segment has a host", of.Segment)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, got.Aggregates...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// get reads a path of a service. field is the request's field, which errors name.
func get(ctx context.Context, from *keystone.Service, field, version, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, keystone.Timeout)
	defer cancel()
	c, err := from.Client(ctx)
	if err == nil {
		opts := &gophercloud.RequestOpts{JSONResponse: into, OkCodes: []int{http.StatusOK}}
		if version != "" {
			opts.MoreHeaders = map[string]string{"OpenStack-API-Version": version}
		}
		_, err = c.Request(ctx, http.MethodGet, c.ServiceURL()+path, opts)
	}
	switch {
	case err == nil:
		return nil
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return fault.Invalid(field, "the service %s has no %s", from.Type, path)
	}
	return fault.Wrap(fault.CellUnavailable, err, "the service %s, which knows the segments of networks, does not answer", from.Type)
}
