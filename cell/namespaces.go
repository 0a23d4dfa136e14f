package cell

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	"cellgate/internal/wire"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
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
	answers, err := s.queue.do(ctx, []shard.Op{{PutFacts: put}}, false)
	if err != nil {
		return nil, err
	}
	a := answers[0]
	switch {
	case a.err != nil:
		return nil, a.err
	case a.outcome.Refusal != nil:
		return nil, refusedByField(&a.outcome)
	}
	out := &cellv1.PutFactsResponse{}
	if n := a.outcome.Namespace; n != nil {
		out.Generation = n.Generation
	}
	return out, nil
}

// refusedByField is the error of an outcome that is a refusal; what is invalid begins with
// its field.
func refusedByField(o *shard.Outcome) error {
	r := o.Refusal
	if field, problem, ok := strings.Cut(r.Message, ": "); ok && r.Kind == fault.InvalidRequest {
		return fault.Invalid(field, "%s", problem)
	}
	err := fault.New(r.Kind, "%s", r.Message)
	if o.Newest > 0 {
		err = err.With("generation", strconv.FormatInt(o.Newest, 10))
	}
	return err
}

func (r *rows) applyNamespace(n *shard.Namespace, d *dirty) error {
	next, same := hostRow{}, false
	if old := r.hosts[n.HostUUID]; old != nil {
		was := old.namespaces[n.Name]
		if was != nil && n.Generation <= was.Generation {
			return nil
		}
		next, same = *old, was != nil && n.Facts != "" && was.Facts == n.Facts
	} else {
		id, err := schedule.ParseID(n.HostUUID)
		if err != nil {
			return err
		}
		next.id = id
	}
	next.namespaces = maps.Clone(next.namespaces)
	if next.namespaces == nil {
		next.namespaces = map[string]*shard.Namespace{}
	}
	next.namespaces[n.Name] = n
	if same { // the table shows no generation
		r.hosts[n.HostUUID] = &next
		return nil
	}
	if next.row() != nil {
		next.said = schedule.NewNamespaces(next.factTexts())
	}
	r.hosts[n.HostUUID] = &next
	d.hosts[n.HostUUID] = true
	if n.Facts == "" {
		if r.goneFacts == nil {
			r.goneFacts = map[[2]string]struct{}{}
		}
		r.goneFacts[[2]string{n.HostUUID, n.Name}] = struct{}{}
	}
	return nil
}

// forgetGone forgets the namespaces that went before the journal was read to its end the
// last time. It needs mu.
func (r *rows) forgetGone() {
	for key := range r.goneBefore {
		if _, again := r.goneFacts[key]; again {
			continue
		}
		row := r.hosts[key[0]]
		if n := row.namespaces[key[1]]; n == nil || n.Facts != "" {
			continue
		}
		next := *row
		next.namespaces = maps.Clone(row.namespaces)
		delete(next.namespaces, key[1])
		r.hosts[key[0]] = &next
	}
	r.goneBefore, r.goneFacts = r.goneFacts, nil
}

// ownNamespaces is what a host says of itself, JSON by namespace; "" for nothing.
func ownNamespaces(h *shard.Host) string {
	if h.Facts == nil {
		return ""
	}
	return h.Facts.Namespaces
}

// factTexts gives the JSON texts of all that is said of a host, by namespace: what
// services put, and what the host reports itself where no service puts the same.
func (row *hostRow) factTexts() map[string]string {
	var out map[string]string
	if said := ownNamespaces(row.row()); said != "" {
		var own map[string]json.RawMessage
		// It was checked when it came in.
		if err := json.Unmarshal([]byte(said), &own); err == nil {
			out = make(map[string]string, len(own)+len(row.namespaces))
			for name, text := range own {
				out[name] = string(text)
			}
		}
	}
	for name, n := range row.namespaces {
		if n.Facts == "" {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(row.namespaces))
		}
		out[name] = n.Facts
	}
	return out
}

// namespaces reads what a host says of itself, as its row has it; "" for nothing.
func (r *stateReader) namespaces(in []*agentv1.Namespace) string {
	if len(in) == 0 {
		return ""
	}
	all, size := make(map[string]json.RawMessage, len(in)), 0
	for i, n := range in {
		path := wire.ItemPath("namespaces", i, "")
		if problem := shard.NamespaceProblem(n.GetName()); problem != "" {
			r.Problem(path+".name", "%s", problem)
			continue
		}
		if _, ok := all[n.GetName()]; ok {
			r.Problem(path+".name", "%s stands there already", n.GetName())
		}
		text, err := shard.CanonicalFacts(n.GetFacts())
		if err != nil {
			r.Problem(path+".facts", "%v", err)
			continue
		}
		all[n.GetName()] = json.RawMessage(text)
		size += len(text)
	}
	if size > shard.MaxNamespaceBytes {
		r.Problem("namespaces", "come to %d bytes, must be at most %d", size, shard.MaxNamespaceBytes)
	}
	if len(all) > shard.MaxNamespaces {
		r.Problem("namespaces", "are %d, must be at most %d", len(all), shard.MaxNamespaces)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(all); err != nil {
		r.Problem("namespaces", "%v", err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// namespaceMessages are a host's namespaces as people see them, by name.
func (c *Cell) namespaceMessages(row *hostRow) []*cellgatev1.HostNamespace {
	var out []*cellgatev1.HostNamespace
	texts := row.factTexts()
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m := &cellgatev1.HostNamespace{Name: name, Facts: &structpb.Struct{}, ByAgent: true}
		if n := row.namespaces[name]; n != nil && n.Facts != "" {
			m.Generation, m.ByAgent = n.Generation, false
		}
		if err := m.Facts.UnmarshalJSON([]byte(texts[name])); err != nil {
			c.log.Error("a namespace of a host is not readable and is shown empty", "host_uuid", row.host.UUID, "namespace", name, "err", err)
		}
		out = append(out, m)
	}
	return out
}
