package replica

import (
	"encoding/json"
	"maps"

	"cellgate/schedule"
	"cellgate/shard"
)

func (r *Rows) applyNamespace(n *shard.Namespace, d *dirty) error {
	next, err := r.next(n.HostUUID)
	was := next.Namespaces[n.Name]
	if err != nil || was != nil && n.Generation <= was.Generation {
		return err
	}
	same := was != nil && n.Facts != "" && was.Facts == n.Facts
	next.Namespaces = maps.Clone(next.Namespaces)
	if next.Namespaces == nil {
		next.Namespaces = map[string]*shard.Namespace{}
	}
	next.Namespaces[n.Name] = n
	if same { // the table shows no generation
		r.hosts[n.HostUUID] = &next
		return nil
	}
	if next.Row() != nil {
		next.texts = schedule.NewNamespaces(next.FactTexts())
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

// forgetGone forgets the namespaces that were removed before the last reading of the journal to its
// end. The caller holds mu.
func (r *Rows) forgetGone() {
	for key := range r.goneBefore {
		if _, again := r.goneFacts[key]; again {
			continue
		}
		row := r.hosts[key[0]]
		if n := row.Namespaces[key[1]]; n == nil || n.Facts != "" {
			continue
		}
		next := *row
		next.Namespaces = maps.Clone(row.Namespaces)
		delete(next.Namespaces, key[1])
		r.hosts[key[0]] = &next
	}
	r.goneBefore, r.goneFacts = r.goneFacts, nil
}

// ownNamespaces are the namespaces that a host reports itself, as JSON by name; "" for none.
func ownNamespaces(h *shard.Host) string {
	if h.Facts == nil {
		return ""
	}
	return h.Facts.Namespaces
}

// FactTexts returns the JSON texts of a host's facts by namespace: those that services put, and those
// that the host reports itself where no service put the same namespace.
func (row *HostRow) FactTexts() map[string]string {
	var out map[string]string
	if reported := ownNamespaces(row.Row()); reported != "" {
		var own map[string]json.RawMessage
		// The JSON was validated when it arrived.
		if err := json.Unmarshal([]byte(reported), &own); err == nil {
			out = make(map[string]string, len(own)+len(row.Namespaces))
			for name, text := range own {
				out[name] = string(text)
			}
		}
	}
	for name, n := range row.Namespaces {
		if n.Facts == "" {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(row.Namespaces))
		}
		out[name] = n.Facts
	}
	return out
}
