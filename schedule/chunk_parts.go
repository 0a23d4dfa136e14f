package schedule

// parts groups a chunk's hosts by an object that several hosts share.
type parts[T any] struct {
	owner uint64
	v     []part[T]
}

type part[T any] struct {
	of   *T
	mask uint64
}

// put moves a host to the part of its new object; nil: to none. It copies the parts unless the owner made them.
func (p *parts[T]) put(of *T, bit uint64, owner uint64) *parts[T] {
	if p == nil {
		p = &parts[T]{owner: owner}
	}
	for i := range p.v {
		if p.v[i].of == of && p.v[i].mask&bit != 0 {
			return p
		}
	}
	n := p
	if p.owner != owner {
		n = &parts[T]{owner: owner, v: make([]part[T], len(p.v), len(p.v)+1)}
		copy(n.v, p.v)
	}
	kept := n.v[:0]
	found := of == nil
	for _, x := range n.v {
		x.mask &^= bit
		if x.of == of {
			x.mask |= bit
			found = true
		}
		if x.mask != 0 {
			kept = append(kept, x)
		}
	}
	if !found {
		kept = append(kept, part[T]{of, bit})
	}
	clear(kept[len(kept):cap(kept)])
	n.v = kept
	return n
}

func (p *parts[T]) all() []part[T] {
	if p == nil {
		return nil
	}
	return p.v
}
