package schedule

import "slices"

// topK keeps the best of what it is offered, in a heap with the worst at the root.
type topK struct {
	limit int
	v     []ranked
}

// ranked is a host with its rank; see Candidate.Better.
type ranked struct {
	weight float64
	tie    uint64
	row    *row
	slot   number
	class  int
}

func (a *ranked) better(b *ranked) bool {
	if a.weight != b.weight {
		return a.weight > b.weight
	}
	if a.tie != b.tie {
		return a.tie > b.tie
	}
	return string(a.row.host.UUID[:]) < string(b.row.host.UUID[:])
}

func (k *topK) full() bool { return len(k.v) == k.limit }

// offer adds a host if it is among the best so far.
func (k *topK) offer(x ranked) {
	if !k.full() {
		k.v = append(k.v, x)
		k.up(len(k.v) - 1)
		return
	}
	if x.better(&k.v[0]) {
		k.v[0] = x
		k.down()
	}
}

func (k *topK) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if !k.v[p].better(&k.v[i]) {
			return
		}
		k.v[p], k.v[i] = k.v[i], k.v[p]
		i = p
	}
}

func (k *topK) down() {
	for i := 0; ; {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(k.v); c++ {
			if k.v[worst].better(&k.v[c]) {
				worst = c
			}
		}
		if worst == i {
			return
		}
		k.v[i], k.v[worst] = k.v[worst], k.v[i]
		i = worst
	}
}

// sorted gives the hosts best first; the heap cannot be used afterwards.
func (k *topK) sorted() []ranked {
	slices.SortFunc(k.v, func(a, b ranked) int {
		if a.better(&b) {
			return -1
		}
		return 1
	})
	return k.v
}
