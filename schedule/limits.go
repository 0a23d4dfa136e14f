package schedule

// Limits are what filters set of a host for its compute's claim to hold an instance
// to (HostState.limits).
type Limits struct {
	// NUMA are the ratios under which NUMATopologyFilter found NUMA cells; nil when
	// it did not.
	NUMA *NUMALimits
	// VCPUs, MemoryMB and DiskGB are a host's amounts times its ratio, by the legacy
	// filters; nil when none set it. What is behind the point is cut off, as
	// SchedulerLimits does.
	VCPUs, MemoryMB, DiskGB *int64
}

// NUMALimits are a host's ratios, as in NUMATopologyLimits.
type NUMALimits struct{ CPURatio, RAMRatio float64 }

// limiter sets what a filter sets of a host that passed.
type limiter func(r *row, l *Limits)

// limit has a filter that runs set limits.
func (s *scan) limit(by limiter) { s.limiters = append(s.limiters, by) }

// limits gives those of a host that passed; nil when no filter sets any.
func (s *scan) limits(r *row) *Limits {
	if len(s.limiters) == 0 {
		return nil
	}
	l := &Limits{}
	for _, set := range s.limiters {
		set(r, l)
	}
	if *l == (Limits{}) {
		return nil
	}
	return l
}

// whole cuts off what is behind the point.
func whole(x float64) *int64 {
	const most = 1 << 62
	n := int64(max(-most, min(most, x)))
	return &n
}
