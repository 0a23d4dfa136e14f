package schedule

// naiveLimits is what Nova's filters put into a host state's limits.
func naiveLimits(h *Host, r *Request, rules *Rules) *Limits {
	n := r.Nova
	if r.Forced() || n != nil && n.Rebuild {
		return nil
	}
	l, v, set := Limits{}, &h.View, false
	put := func(to **int64, x float64) {
		n := int64(x)
		*to, set = &n, true
	}
	least := func(key string, otherwise float64) float64 { return naiveLeast(h, key, otherwise, false) }
	cores := func(ratio float64) {
		if x := float64(v.VCPUsTotal) * ratio; x > 0 {
			put(&l.VCPUs, x)
		}
	}
	for _, f := range rules.Filters {
		switch f {
		case NUMAFilter:
			if n != nil && n.NUMA != nil {
				l.NUMA, set = &NUMALimits{CPURatio: v.CPURatio, RAMRatio: v.RAMRatio}, true
			}
		case CoreFilter:
			cores(v.CPURatio)
		case AggregateCoreFilter:
			cores(least("cpu_allocation_ratio", v.CPURatio))
		case RAMFilter:
			put(&l.MemoryMB, float64(v.TotalRAMMB)*v.RAMRatio)
		case AggregateRAMFilter:
			put(&l.MemoryMB, float64(v.TotalRAMMB)*least("ram_allocation_ratio", v.RAMRatio))
		case DiskFilter:
			put(&l.DiskGB, float64(v.TotalDiskGB*1024)*v.DiskRatio/1024)
		case ExactCoreFilter:
			put(&l.VCPUs, float64(v.VCPUsTotal))
		case ExactRAMFilter:
			put(&l.MemoryMB, float64(v.TotalRAMMB))
		case ExactDiskFilter:
			put(&l.DiskGB, float64(v.TotalDiskGB))
		case AggregateDiskFilter:
			put(&l.DiskGB, float64(v.TotalDiskGB*1024)*least("disk_allocation_ratio", v.DiskRatio)/1024)
		}
	}
	if !set {
		return nil
	}
	return &l
}
