package schedule

// Limits are the limits that filters set for a host (HostState.limits). The compute checks its claim for the instance
// against them.
type Limits struct {
	// NUMA are the ratios that NUMATopologyFilter used; nil if it did not run, or the guest has no topology.
	NUMA *NUMALimits
	// VCPUs, MemoryMB and DiskGB are the host's amounts times its ratios, by the legacy filters; nil if none set
	// them. Fractions are cut off, as in SchedulerLimits.
	VCPUs, MemoryMB, DiskGB *int64
}

// NUMALimits are a host's ratios, as in NUMATopologyLimits.
type NUMALimits struct{ CPURatio, RAMRatio float64 }

// limiter sets one filter's limits for a host that passed.
type limiter func(r *row, l *Limits)

// limit registers the limits of a filter that runs.
func (s *scan) limit(by limiter) { s.limiters = append(s.limiters, by) }

// limits gives the limits for a host that passed; nil if no filter sets any.
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

// whole cuts off the fraction.
func whole(x float64) *int64 {
	const most = 1 << 62
	n := int64(max(-most, min(most, x)))
	return &n
}
