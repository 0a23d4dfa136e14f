package config

import (
	"fmt"
	"strings"

	"cellgate/internal/limits"
	"cellgate/internal/novarelease"
	"cellgate/internal/python"
)

// checkNova checks the gateway's keys that nova.conf may set. Cells accept every value that passes.
func (l *loader) checkNova(g Gateway) {
	l.needed("gateway.default_availability_zone", g.DefaultAvailabilityZone)
	l.factors("gateway.nova.image_props_weight_setting", g.Nova.ImagePropertySetting)
	l.factors("gateway.nova.metrics_weight_setting", g.Nova.MetricsSetting)
}

// factors checks that each item is name=factor.
func (l *loader) factors(path string, list []string) {
	for i, text := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		name, factor, _ := strings.Cut(text, "=")
		// A number that is too large becomes infinite.
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
