package schedule

import (
	"slices"
	"strings"

	"cellgate/internal/python"
)

// Filters that compare a request with the metadata of a host's aggregates.
const (
	AggregateExtraSpecsFilter   = "AggregateInstanceExtraSpecsFilter"
	AggregateImageFilter        = "AggregateImagePropertiesIsolation"
	AggregateTenantFilter       = "AggregateMultiTenancyIsolation"
	AggregateTypeAffinityFilter = "AggregateTypeAffinityFilter"
)

// aggregateExtraSpecsFilter: each extra spec without a scope, or with the scope aggregate_instance_extra_specs, must
// match a value of its key. A host whose aggregates lack the key fails (filters/aggregate_instance_extra_specs.py).
func (s *scan) aggregateExtraSpecsFilter() {
	var specs []capability
	for _, spec := range s.nova.Flavor.ExtraSpecs {
		key := spec.Key
		if scope, rest, scoped := strings.Cut(key, ":"); scoped {
			if scope != "aggregate_instance_extra_specs" {
				continue
			}
			key = rest
		}
		specs = append(specs, capability{path: []string{key}, want: readOperator(spec.Value)})
	}
	if len(specs) == 0 {
		return
	}
	s.perSet(AggregateExtraSpecsFilter, "", func(a *aggregateSet) (bool, *python.Exception) {
		for i := range specs {
			if ok, err := specs[i].want.matchAny(a.split[specs[i].path[0]]); !ok {
				return false, err
			}
		}
		return true, nil
	})
}

// matchAny reports whether one of the values matches. An exception counts only if no value matches: Nova iterates in
// no order.
func (o *operator) matchAny(values []string) (bool, *python.Exception) {
	var raised *python.Exception
	for _, v := range values {
		ok, err := o.match(v)
		if ok {
			return true, nil
		}
		if raised == nil {
			raised = err
		}
	}
	return false, raised
}

// aggregateImageFilter: if aggregates have the key of an image property, the property must be one of its values. A
// property that the image does not set passes (filters/aggregate_image_properties_isolation.py).
func (s *scan) aggregateImageFilter() {
	if s.nova.Image == nil {
		return
	}
	prefix := ""
	if s.options.ImageIsolationNamespace != "" {
		prefix = s.options.ImageIsolationNamespace + s.options.ImageIsolationSeparator
	}
	var props []Property
	for _, p := range s.nova.Image.Properties {
		if !p.Zero && strings.HasPrefix(p.Name, prefix) && s.t.names.metadata.id(p.Name) >= 0 {
			props = append(props, p)
		}
	}
	if len(props) == 0 {
		return
	}
	s.perSet(AggregateImageFilter, "", func(a *aggregateSet) (bool, *python.Exception) {
		for _, p := range props {
			if values, ok := a.split[p.Name]; ok && !slices.Contains(values, p.Text) {
				return false, nil
			}
		}
		return true, nil
	})
}

// aggregateTenantFilter: a host whose aggregates name tenants accepts only those
// (filters/aggregate_multitenancy_isolation.py).
func (s *scan) aggregateTenantFilter() {
	s.perSet(AggregateTenantFilter, "", func(a *aggregateSet) (bool, *python.Exception) {
		isolated := false
		for k, tenants := range a.split {
			if k != tenantKey && (s.options.ExactTenantKey || !strings.HasPrefix(k, tenantKey)) {
				continue
			}
			if s.nova.ProjectID != "" && slices.Contains(tenants, s.nova.ProjectID) {
				return true, nil
			}
			isolated = true
		}
		return !isolated, nil
	})
}

// aggregateTypeAffinityFilter: a host whose aggregates name flavors accepts only those (filters/type_filter.py).
func (s *scan) aggregateTypeAffinityFilter() {
	s.perSet(AggregateTypeAffinityFilter, "", func(a *aggregateSet) (bool, *python.Exception) {
		flavors := a.split["instance_type"]
		return len(flavors) == 0 || slices.Contains(flavors, s.nova.Flavor.Name), nil
	})
}
