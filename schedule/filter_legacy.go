package schedule

import (
	"math"

	"cellgate/internal/python"
)

// Filters of older releases (15.0.0, nova/scheduler/filters). They read the columns of compute_nodes, which Placement
// replaced.
const (
	CoreFilter          = "CoreFilter"
	RAMFilter           = "RamFilter"
	DiskFilter          = "DiskFilter"
	AggregateCoreFilter = "AggregateCoreFilter"
	AggregateRAMFilter  = "AggregateRamFilter"
	AggregateDiskFilter = "AggregateDiskFilter"
	ExactCoreFilter     = "ExactCoreFilter"
	ExactRAMFilter      = "ExactRamFilter"
	ExactDiskFilter     = "ExactDiskFilter"
	RetryFilter         = "RetryFilter"
	TypeAffinityFilter  = "TypeAffinityFilter"
)

// ratioRule gives a host's allocation ratio, or the exception that Nova raises if there is none.
type ratioRule func(*row) (float64, *python.Exception)

// ratioOf gives a host's own allocation ratio or, with inSet, the least of its aggregates. A host whose compute has
// not reported has no ratio of its own.
func (s *scan) ratioOf(key string, inSet bool, own func(*View) float64) ratioRule {
	of := func(r *row) (float64, *python.Exception) {
		if f := r.host.Facts; f != nil && f.Unfilled {
			return 0, noOwnRatio
		}
		return own(&r.view), nil
	}
	if !inSet || s.t.names.metadata.id(key) < 0 {
		return of
	}
	return func(r *row) (float64, *python.Exception) {
		ratio, ok := r.set.least(key, math.NaN())
		if !ok {
			s.warn(key, r.set)
		}
		if ratio != ratio { // No aggregate has a valid ratio.
			return of(r)
		}
		return ratio, nil
	}
}

// coreFilter: a host without vCPUs passes. Else an instance must fit both the total and what the ratio leaves free.
func (s *scan) coreFilter(filter string, inSet bool) {
	want := float64(s.nova.Flavor.VCPUs)
	ratio := s.ratioOf("cpu_allocation_ratio", inSet, func(v *View) float64 { return v.CPURatio })
	s.limitTo(ratio, func(v *View) int64 { return v.VCPUsTotal }, func(l *Limits, limit float64) {
		if limit > 0 {
			l.VCPUs = whole(limit)
		}
	})
	s.perHost(filter, func(r *row) (bool, *python.Exception) {
		total := float64(r.view.VCPUsTotal)
		if total == 0 {
			return true, nil
		}
		x, err := ratio(r)
		if err != nil {
			return false, err
		}
		limit := float64(total * x)
		if limit > 0 && want > total {
			return false, nil
		}
		return limit-float64(r.view.VCPUsUsed) >= want, nil
	})
}

func (s *scan) ramFilter(filter string, inSet bool) {
	ratio := s.ratioOf("ram_allocation_ratio", inSet, func(v *View) float64 { return v.RAMRatio })
	s.limitTo(ratio, func(v *View) int64 { return v.TotalRAMMB }, func(l *Limits, limit float64) { l.MemoryMB = whole(limit) })
	s.overcommitted(filter, s.nova.Flavor.MemoryMB, ratio, func(v *View) (total, free int64) {
		return v.TotalRAMMB, v.FreeRAMMB
	})
}

func (s *scan) diskFilter(filter string, inSet bool) {
	ratio := s.ratioOf("disk_allocation_ratio", inSet, func(v *View) float64 { return v.DiskRatio })
	s.limitTo(ratio, func(v *View) int64 { return v.TotalDiskGB * 1024 }, func(l *Limits, limit float64) { l.DiskGB = whole(limit / 1024) })
	s.overcommitted(filter, s.nova.Flavor.diskMB(), ratio, func(v *View) (total, free int64) {
		return v.TotalDiskGB * 1024, v.FreeDiskMB
	})
}

// limitTo makes a filter set a limit: a host's total times its ratio.
func (s *scan) limitTo(ratio ratioRule, total func(*View) int64, set func(*Limits, float64)) {
	s.limit(func(r *row, l *Limits) {
		if x, err := ratio(r); err == nil {
			set(l, float64(total(&r.view))*x)
		}
	})
}

// overcommitted: an amount must fit the total, and what is left of the total times the ratio.
func (s *scan) overcommitted(filter string, want int64, ratio ratioRule, of func(*View) (total, free int64)) {
	s.perHost(filter, func(r *row) (bool, *python.Exception) {
		total, free := of(&r.view)
		if total < want {
			return false, nil
		}
		x, err := ratio(r)
		if err != nil {
			return false, err
		}
		return float64(float64(total)*x)-float64(total-free) >= float64(want), nil
	})
}

// diskMB is the disk that the legacy filters require, swap included.
func (f *Flavor) diskMB() int64 { return 1024*(f.RootGB+f.EphemeralGB) + f.SwapMB }

// The exact filters set a claim's limit to the host's whole amount, so that the host refuses a second instance of one
// request.

func (s *scan) exactCoreFilter() {
	s.limit(func(r *row, l *Limits) { l.VCPUs = new(r.view.VCPUsTotal) })
	s.perHost(ExactCoreFilter, func(r *row) (bool, *python.Exception) {
		v := &r.view
		return v.VCPUsTotal != 0 && v.VCPUsTotal-v.VCPUsUsed == s.nova.Flavor.VCPUs, nil
	})
}

func (s *scan) exactRAMFilter() {
	s.limit(func(r *row, l *Limits) { l.MemoryMB = new(r.view.TotalRAMMB) })
	s.perHost(ExactRAMFilter, func(r *row) (bool, *python.Exception) {
		return r.view.FreeRAMMB == s.nova.Flavor.MemoryMB, nil
	})
}

func (s *scan) exactDiskFilter() {
	s.limit(func(r *row, l *Limits) { l.DiskGB = new(r.view.TotalDiskGB) })
	s.perHost(ExactDiskFilter, func(r *row) (bool, *python.Exception) {
		return r.view.FreeDiskMB == s.nova.Flavor.diskMB(), nil
	})
}

// retryFilter leaves out the hosts and nodes that were already tried.
func (s *scan) retryFilter() {
	tried := s.nova.Retry
	if len(tried) == 0 {
		return
	}
	var all slotWords
	for _, t := range tried {
		on, nodes := s.t.onServices([]string{t.Host}, false), s.t.onNodes([]string{t.Node})
		for _, w := range on {
			if w.mask &= nodes.in(int(w.chunk)); w.mask != 0 {
				all = append(all, w)
			}
		}
	}
	all = all.sorted()
	s.check(RetryFilter, "", func(at int, _ *chunk, _ uint64) uint64 { return ^all.in(at) })
}

// typeAffinityFilter keeps hosts whose instances all have the request's flavor. An instance of unknown flavor counts
// as different.
func (s *scan) typeAffinityFilter() {
	want := s.nova.Flavor.ID
	s.beyond = true
	s.perHost(TypeAffinityFilter, func(r *row) (bool, *python.Exception) {
		for _, id := range r.consumers {
			if p, _ := s.t.consumers.get(id); p.details == nil || p.details.flavor == "" || p.details.flavor != want {
				return false, nil
			}
		}
		return true, nil
	})
}
