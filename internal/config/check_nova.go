package config

import (
	"fmt"
	"strings"

	"cellgate/internal/limits"
	"cellgate/internal/novarelease"
	"cellgate/internal/python"
)

// checkNova checks what of a gateway nova.conf may say. Every value that passes can
// be asked of a cell.
func (l *loader) checkNova(g Gateway) {
	l.needed("gateway.default_availability_zone", g.DefaultAvailabilityZone)
	l.atLeast("gateway.nova.host_subset_size", g.Nova.HostSubsetSize, 1)
	if n := g.Nova.HostSubsetSize; n > limits.Subset {
		l.bad("gateway.nova.host_subset_size", "%d is above %d", n, limits.Subset)
	}
	l.atLeast("gateway.nova.max_io_ops_per_host", g.Nova.MaxIOOpsPerHost, 0)
	l.atLeast("gateway.nova.max_instances_per_host", g.Nova.MaxInstancesPerHost, 1)
	l.factors("gateway.nova.image_props_weight_setting", g.Nova.ImagePropertySetting)
	l.factors("gateway.nova.metrics_weight_setting", g.Nova.MetricsSetting)
	if x := g.Nova.MetricsUnavailable; !limits.IsWeight(x) {
		l.bad("gateway.nova.metrics_weight_of_unavailable", "%v is not between -%v and %[2]v", x, limits.Weight)
	}
}

// factors: each is name=factor.
func (l *loader) factors(path string, list []string) {
	for i, text := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		name, factor, _ := strings.Cut(text, "=")
		// A number too great is infinite.
		switch x, ok := python.Float(factor); {
		case strings.TrimSpace(name) == "" || !ok:
			l.bad(at, "%q is not name=factor", text)
		case !limits.IsWeight(x):
			l.bad(at, "the factor of %q is not between -%v and %[2]v", text, limits.Weight)
		}
	}
}

func (l *loader) novaRelease(path, name string) {
	if _, err := novarelease.Parse(name); err != nil {
		l.bad(path, "%v", err)
	}
}
