package cell

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// PutFacts writes or removes a namespace of a host, through the lane and with lower priority than
// claims. When it returns, this replica's table shows the change.
func (s *scheduler) PutFacts(ctx context.Context, req *cellv1.PutFactsRequest) (*cellv1.PutFactsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	put := &shard.PutFacts{
		HostUUID: r.UUID("host_uuid", req.GetHostUuid()), Namespace: req.GetNamespace(), Facts: req.GetFacts(), IfGeneration: req.GetIfGeneration(),
		AsOf: req.GetAsOfGeneration(),
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	done, err := s.commit(ctx, shard.Op{PutFacts: put})
	if err != nil {
		return nil, err
	}
	out := &cellv1.PutFactsResponse{}
	if done.Namespace != nil {
		out.Generation = done.Namespace.Generation
	}
	return out, nil
}

// commit commits a background operation. A refusal becomes an error; if the operation was invalid, the
// error names the field.
func (c *Cell) commit(ctx context.Context, op shard.Op) (shard.Outcome, error) {
	o, err := c.queue.DoOne(ctx, op, false)
	r := o.Refusal
	if err != nil || r == nil {
		return o, err
	}
	if field, problem, ok := strings.Cut(r.Message, ": "); ok && r.Kind == fault.InvalidRequest {
		return o, fault.Invalid(field, "%s", problem)
	}
	refusal := fault.New(r.Kind, "%s", r.Message)
	if o.Newest > 0 {
		refusal = refusal.With("generation", strconv.FormatInt(o.Newest, 10))
	}
	return o, refusal
}

// namespaceMessages converts a host's namespaces for the API, by name.
func (c *Cell) namespaceMessages(row *replica.HostRow) []*cellgatev1.HostNamespace {
	var out []*cellgatev1.HostNamespace
	texts := row.FactTexts()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m := &cellgatev1.HostNamespace{Name: name, Facts: &structpb.Struct{}, ByAgent: true}
		if n := row.Namespaces[name]; n != nil && n.Facts != "" {
			m.Generation, m.ByAgent = n.Generation, false
		}
		if err := m.Facts.UnmarshalJSON([]byte(texts[name])); err != nil {
			c.log.Error("a namespace of a host is not readable and is shown empty", "host_uuid", row.Host.UUID, "namespace", name, "err", err)
		}
		out = append(out, m)
	}
	return out
}
