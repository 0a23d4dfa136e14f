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

// PutFacts writes a namespace of a host, or takes it away, through the lane and after
// claims. What it answers is in the table that this replica serves.
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
	done, err := s.queue.DoOne(ctx, shard.Op{PutFacts: put}, false)
	if err == nil {
		err = errorOfRefusal(&done)
	}
	if err != nil {
		return nil, err
	}
	out := &cellv1.PutFactsResponse{}
	if done.Namespace != nil {
		out.Generation = done.Namespace.Generation
	}
	return out, nil
}

// errorOfRefusal is the error of an outcome that is a refusal, nil for another; what is invalid
// begins with its field.
func errorOfRefusal(o *shard.Outcome) error {
	r := o.Refusal
	if r == nil {
		return nil
	}
	if field, problem, ok := strings.Cut(r.Message, ": "); ok && r.Kind == fault.InvalidRequest {
		return fault.Invalid(field, "%s", problem)
	}
	err := fault.New(r.Kind, "%s", r.Message)
	if o.Newest > 0 {
		err = err.With("generation", strconv.FormatInt(o.Newest, 10))
	}
	return err
}

// namespaceMessages are a host's namespaces as people see them, by name.
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
