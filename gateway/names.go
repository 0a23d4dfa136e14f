package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/suggest"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// namedField is a field of a request that has a uuid, or a name in its place.
type namedField struct {
	path string
	at   *string
}

// namedFields are the fields of a request in which names stand for hosts and for aggregates.
type namedFields struct{ hosts, aggregates []namedField }

// acceptNames puts uuids in the place of the names of hosts and aggregates in a request.
func (g *Gateway) acceptNames(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	var named namedFields
	switch r := req.(type) {
	case *cellgatev1.SelectDestinationsRequest:
		named.addSpec("request_spec", r.GetRequestSpec())
	case *cellgatev1.EstimateCapacityRequest:
		named.addCapacity(r)
	case proto.Message:
		return g.acceptHostName(ctx, r, handler)
	}
	if err := g.resolveHosts(ctx, g.cells.All, named.hosts); err != nil {
		return nil, err
	}
	if err := g.resolveAggregates(named.aggregates); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// acceptHostName is acceptNames of a request whose field host_uuid alone names a host.
func (g *Gateway) acceptHostName(ctx context.Context, req proto.Message, handler grpc.UnaryHandler) (any, error) {
	m := req.ProtoReflect()
	field := m.Descriptor().Fields().ByName("host_uuid")
	if field == nil {
		return handler(ctx, req)
	}
	name := m.Get(field).String()
	var named namedFields
	named.add(&named.hosts, "host_uuid", &name)
	if len(named.hosts) > 0 {
		cells := g.cells.All
		if in, ok := req.(interface{ GetCell() string }); ok && g.cells.Named(in.GetCell()) != nil {
			cells = []*cellclient.Cell{g.cells.Named(in.GetCell())}
		}
		if err := g.resolveHosts(ctx, cells, named.hosts); err != nil {
			return nil, err
		}
		m.Set(field, protoreflect.ValueOfString(name))
	}
	return handler(ctx, req)
}

// add notes a field with a name in it.
func (n *namedFields) add(to *[]namedField, path string, at *string) {
	if *at != "" && !rpc.IsUUID(*at) {
		*to = append(*to, namedField{path, at})
	}
}

func (n *namedFields) addAll(to *[]namedField, path string, texts []string) {
	for i := range texts {
		n.add(to, fmt.Sprintf("%s[%d]", path, i), &texts[i])
	}
}

func (n *namedFields) addSpec(path string, s *cellgatev1.RequestSpec) {
	if len(s.GetMemberOf())+len(s.GetForbiddenAggregates()) == 0 {
		return
	}
	for i, set := range s.GetMemberOf() {
		n.addAll(&n.aggregates, fmt.Sprintf("%s.member_of[%d].aggregates", path, i), set.GetAggregates())
	}
	n.addAll(&n.aggregates, path+".forbidden_aggregates", s.GetForbiddenAggregates())
}

func (n *namedFields) addCapacity(r *cellgatev1.EstimateCapacityRequest) {
	for i, s := range r.GetShapes() {
		n.addSpec(fmt.Sprintf("shapes[%d].request_spec", i), s.GetRequestSpec())
	}
	for i, x := range r.GetChanges().GetAddedHosts() {
		n.add(&n.hosts, fmt.Sprintf("changes.added_hosts[%d].like_host_uuid", i), &x.LikeHostUuid)
	}
	for i, x := range r.GetChanges().GetAggregates() {
		path := fmt.Sprintf("changes.aggregates[%d].", i)
		n.add(&n.aggregates, path+"aggregate_uuid", &x.AggregateUuid)
		n.addAll(&n.hosts, path+"add_host_uuids", x.GetAddHostUuids())
		n.addAll(&n.hosts, path+"remove_host_uuids", x.GetRemoveHostUuids())
	}
	for i, x := range r.GetChanges().GetRatios() {
		path := fmt.Sprintf("changes.ratios[%d].", i)
		n.add(&n.aggregates, path+"aggregate_uuid", &x.AggregateUuid)
		n.addAll(&n.hosts, path+"host_uuids", x.GetHostUuids())
	}
	n.addAll(&n.hosts, "changes.drained_hosts", r.GetChanges().GetDrainedHosts())
}

// resolveHosts puts the uuids of hosts in the place of their names.
func (g *Gateway) resolveHosts(ctx context.Context, cells []*cellclient.Cell, fields []namedField) error {
	if len(fields) == 0 {
		return nil
	}
	var names []string
	for _, f := range fields {
		names = append(names, *f.at)
	}
	slices.Sort(names)
	replies := cellclient.HostsNamed(ctx, cells, slices.Compact(names))
	found := map[string][]*cellgatev1.Host{}
	for _, r := range replies {
		for _, h := range r.Got {
			found[h.GetServiceHost()] = append(found[h.GetServiceHost()], h)
			if h.GetNodename() != h.GetServiceHost() {
				found[h.GetNodename()] = append(found[h.GetNodename()], h)
			}
		}
	}
	var wrong []fault.Field
	for _, f := range fields {
		name := *f.at
		hosts := found[name]
		if len(hosts) == 1 {
			*f.at = hosts[0].GetHostUuid()
			continue
		}
		if len(hosts) > 1 {
			wrong = append(wrong, ambiguousHost(f.path, name, hosts))
			continue
		}
		like, silent := "", slices.ContainsFunc(replies, func(r cellclient.Reply[[]*cellgatev1.Host]) bool { return r.Err != nil })
		if len(wrong) == 0 && !silent { // SimilarHost compares all names: once per request is enough
			like = g.cells.SimilarHost(ctx, name)
		}
		if f.path == "host_uuid" || silent {
			return cellclient.NotFound(replies, fmt.Sprintf("host %q%s", name, suggest.Meant(like)))
		}
		wrong = append(wrong, fault.Field{Path: f.path, Problem: fmt.Sprintf("there is no host %q%s", name, suggest.Meant(like))})
	}
	return fault.InvalidFields(wrong)
}

// shownCandidates bounds the hosts or aggregates of one name that an error lists.
const shownCandidates = 10

// ambiguousHost is the problem of a name that several hosts have, or one host that is registered in several cells.
func ambiguousHost(path, name string, hosts []*cellgatev1.Host) fault.Field {
	var list, cells []string
	isOne := true
	for _, h := range hosts {
		list, cells = append(list, fmt.Sprintf("%s (%s, node %s)", h.GetHostUuid(), h.GetCell(), h.GetNodename())), append(cells, h.GetCell())
		isOne = isOne && h.GetHostUuid() == hosts[0].GetHostUuid()
	}
	if isOne {
		return fault.Field{Path: path, Problem: inSeveralCells(name, cells)}
	}
	return ambiguous(path, name, "hosts", list)
}

// inSeveralCells is what to do about one host that is registered in several cells.
func inSeveralCells(host string, cells []string) string {
	return fmt.Sprintf("host %q is in several cells: %s; name one as the cell, and delete the host in the cells that it has left", host, strings.Join(cells, ", "))
}

func ambiguous(path, name, what string, list []string) fault.Field {
	n := len(list)
	if n > shownCandidates {
		list = append(list[:shownCandidates:shownCandidates], fmt.Sprintf("and %d more", n-shownCandidates))
	}
	return fault.Field{Path: path, Problem: fmt.Sprintf("%d %s have the name %q: give the uuid of one: %s", n, what, name, strings.Join(list, ", "))}
}

// resolveAggregates puts the uuids of aggregates in the place of their names. Cells know only aggregates with hosts.
func (g *Gateway) resolveAggregates(fields []namedField) error {
	if len(fields) == 0 {
		return nil
	}
	byName, silent := map[string][]string{}, cellclient.Missing{}
	for _, c := range g.cells.All {
		s := c.LastSummary()
		if s == nil {
			silent.Add(c, nil)
		}
		for i, uuid := range s.GetAggregates() {
			if i >= len(s.GetAggregateNames()) {
				break // a cell of an older release does not name them
			}
			if name := s.GetAggregateNames()[i]; !slices.Contains(byName[name], uuid) {
				byName[name] = append(byName[name], uuid)
			}
		}
	}
	var wrong []fault.Field
	for _, f := range fields {
		name := *f.at
		switch uuids := byName[name]; {
		case len(uuids) == 1:
			*f.at = uuids[0]
		case len(uuids) > 1:
			wrong = append(wrong, ambiguous(f.path, name, "aggregates", uuids))
		case silent.Len() > 0:
			return silent.Fault("aggregate %q is not in the cells that answered; these did not", name)
		default:
			like := ""
			if len(wrong) == 0 { // it compares all names: once per request is enough
				like = suggest.MeantOf(name, slices.Sorted(maps.Keys(byName)), 2) // names are short
			}
			wrong = append(wrong, fault.Field{Path: f.path, Problem: fmt.Sprintf("no host is in an aggregate %q%s", name, like)})
		}
	}
	return fault.InvalidFields(wrong)
}
