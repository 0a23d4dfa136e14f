package schedule

// GuestCheck is an instance that is to take of a host's NUMA cells and devices, and
// which of the filters that read these judge that.
type GuestCheck struct {
	Nova      *NovaRequest
	NUMA, PCI bool
}

// JudgeGuests gives, for instances that come to a host one after the other, the filter
// that rejects each, or "" for one that passes; those that pass take their part before
// the next. An instance that no filter judges passes. So do all on a host that there
// is not.
func (t *Table) JudgeGuests(host ID, guests []GuestCheck) []string {
	rejected := make([]string, len(guests))
	at, ok := t.slots.get(host)
	if !ok {
		return rejected
	}
	r := t.row(at)
	left := r.hardware()
	limits := &numaLimits{r.view.CPURatio, r.view.RAMRatio}
	for i := range guests {
		if rejected[i] = guests[i].judge(left, limits); rejected[i] != "" || left == nil {
			continue
		}
		after, _ := left.take(guests[i].Nova, limits)
		left = &after
	}
	return rejected
}

// judge asks the filters as they ask of a host, hw being what is left of its hardware.
func (g *GuestCheck) judge(hw *hardware, limits *numaLimits) string {
	n := g.Nova
	if g.NUMA && n.NUMA != nil {
		if hw == nil || hw.numa == nil {
			return NUMAFilter
		}
		s := numaSearch{need: n.NUMA, limits: limits, pci: n.PCI, nets: n.Networks}
		if ok, err := s.find(hw); !ok || err != nil {
			return NUMAFilter
		}
	}
	if g.PCI && len(n.PCI) > 0 {
		if hw == nil {
			return PCIFilter
		}
		var s pciSearch
		if ok, err := s.support(hw, n.PCI, nil); !ok || err != nil {
			return PCIFilter
		}
	}
	return ""
}
