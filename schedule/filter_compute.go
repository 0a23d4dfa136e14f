package schedule

// computeFilter rejects hosts that are disabled, withheld or down (filters/compute_filter.py). Forced hosts may be
// down: Placement only knows the trait COMPUTE_STATUS_DISABLED.
func (s *scan) computeFilter() {
	s.check(ComputeFilter, "disabled", func(_ int, c *chunk, _ uint64) uint64 { return ^c.disabled })
	s.withheldChecks()
	if !s.q.Request.Forced() {
		s.check(ComputeFilter, "down", func(_ int, c *chunk, _ uint64) uint64 { return ^c.down })
	}
}
