package schedule

import "slices"

// Allocation is what an instance takes of a host's providers.
type Allocation struct {
	// Amounts are above 0; each class is listed once for a provider.
	Amounts []ProviderAmount
	// Mappings are the providers of each request group, by suffix. The unsuffixed group has the suffix "".
	Mappings []Mapping
}

// ProviderAmount is an amount of a class of one provider.
type ProviderAmount struct {
	Provider ID
	Class    string
	N        int64
}

// Mapping is the providers of a request group.
type Mapping struct {
	Suffix    string
	Providers []ID
}

// allocation gives what an instance of the request takes of the host. It is nil if the instance takes exactly the
// request's Resources of the root provider. The host must have passed.
func (r *row) allocation(q *Request, search *treeSearch, by judging) *Allocation {
	if q.Fallback == nil && !q.Tree.groups() && (q.Tree == nil || len(r.host.Children) == 0) {
		return nil
	}
	return search.allocation(r, q, by)
}

// AtRoot gives an allocation of amounts of the root provider, whose uuid is the host's.
func AtRoot(host ID, amounts []Amount) *Allocation {
	a := &Allocation{Mappings: []Mapping{{Providers: []ID{host}}}}
	for _, x := range amounts {
		a.Amounts = append(a.Amounts, ProviderAmount{Provider: host, Class: x.Class, N: x.N})
	}
	return a
}

// rootFits reports whether the root provider has room for the amounts, and the
// traits.
func (r *row) rootFits(amounts []Amount, required, forbidden []string) bool {
	if !qualifies(r.host.Traits, required, forbidden) {
		return false
	}
	for _, a := range amounts {
		i := slices.IndexFunc(r.host.Resources, func(res Resource) bool { return res.Class == a.Class })
		if i < 0 || !r.host.Resources[i].fits(a.N, r.used[i]) {
			return false
		}
	}
	return true
}

// fits applies Placement's rule to an amount beside what is used.
func (res *Resource) fits(n, used int64) bool {
	return n <= most(res, used) && n >= res.MinUnit && (res.StepSize <= 1 || n%res.StepSize == 0)
}

// The classes that the Nova view of a host follows.
const (
	classVCPU   = "VCPU"
	classPCPU   = "PCPU"
	classMemory = "MEMORY_MB"
	classDisk   = "DISK_GB"
)

// consumption is the change of the host's Nova view by the allocation. Only amounts of the root count.
func (a *Allocation) consumption(root ID) (c Consumption) {
	for _, x := range a.Amounts {
		if x.Provider != root {
			continue
		}
		switch x.Class {
		case classVCPU, classPCPU:
			c.VCPUs += x.N
		case classMemory:
			c.RAMMB = x.N
		case classDisk:
			c.DiskMB = x.N * 1024
		}
	}
	return c
}

// use adds an amount to what is used of the root. The row must be owned.
func (r *row) use(a Amount) { use(r.host.Resources, r.used, a) }

func use(of []Resource, used []int64, a Amount) {
	for i := range of {
		if a.Class == of[i].Class {
			used[i] += a.N
		}
	}
}

// allocate adds an allocation to what is used. The row must be owned.
func (r *row) allocate(a *Allocation) {
	for _, x := range a.Amounts {
		amount := Amount{Class: x.Class, N: x.N}
		if x.Provider == r.host.UUID {
			r.use(amount)
		}
		for i := range r.host.Children {
			if c := &r.host.Children[i]; c.UUID == x.Provider {
				use(c.Resources, r.childUsed[i], amount)
			}
		}
	}
}
