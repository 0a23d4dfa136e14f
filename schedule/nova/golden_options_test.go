package nova

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"cellgate/schedule"
)

// rules are a case's filters, weighers and options. They are strict: if Nova raises, the core must
// raise.
func (c *goldenCase) rules(filters []string, weighers []schedule.Weigher) *schedule.Rules {
	if weighers == nil {
		weighers = []schedule.Weigher{}
	}
	return &schedule.Rules{
		Filters:                 filters,
		Weighers:                weighers,
		DefaultAvailabilityZone: value(c.Config.Default.Zone, "nova"),
		Options:                 c.options(),
	}
}

func (c *goldenCase) options() *schedule.Options {
	o, g := schedule.DefaultOptions(), &c.Config
	o.StrictNova, o.ExactTenantKey = true, c.Nova == ""
	o.MaxIOOpsPerHost = value(g.MaxIOOps, o.MaxIOOpsPerHost)
	o.MaxInstancesPerHost = value(g.MaxInstances, o.MaxInstancesPerHost)
	o.IsolatedHosts, o.IsolatedImages = g.IsolatedHosts, g.IsolatedImages
	o.RestrictIsolated = value(g.Restrict, o.RestrictIsolated)
	o.DefaultArchitecture = g.Architecture
	o.ImageIsolationNamespace = g.Namespace
	o.ImageIsolationSeparator = value(g.Separator, o.ImageIsolationSeparator)
	o.SubsetSize = value(g.SubsetSize, 1)
	o.MetricsRequired = value(g.Metrics.Required, o.MetricsRequired)
	o.MetricsUnavailable = value(g.Metrics.Unavailable, o.MetricsUnavailable)
	for _, s := range g.Metrics.Setting {
		if r, ok := schedule.ParseRatio(s); ok {
			o.MetricsSetting = append(o.MetricsSetting, r)
		}
	}
	for _, s := range g.ImageSetting {
		if r, ok := schedule.ParseRatio(s); ok {
			o.ImagePropertySetting = append(o.ImagePropertySetting, r)
		}
	}
	return o
}

// weighers gives the weighers in Nova's order, with their multipliers. missing names a weigher that
// the core lacks.
func (c *goldenCase) weighers() (ws []schedule.Weigher, missing string) {
	ws = []schedule.Weigher{}
	for _, name := range c.Config.Weighers {
		option := schedule.MultiplierOption(name)
		if option == "" {
			return nil, name
		}
		m, ok := c.Config.numbers[option]
		switch {
		case name == schedule.MetricsWeigher:
			m = value(c.Config.Metrics.Multiplier, 1)
		case !ok && (name == schedule.NumInstancesWeigher || name == schedule.ImagePropertiesWeigher):
			m = 0
		case !ok:
			m = 1
			for _, w := range schedule.DefaultWeighers() {
				if w.Name == name {
					m = w.Multiplier
				}
			}
		}
		ws = append(ws, schedule.Weigher{Name: name, Multiplier: m})
	}
	return ws, ""
}

// extraSpecOrder gives the flavor's extra specs in the order of the text, which is Nova's. The
// order decides which of several errors is raised.
func extraSpecOrder(line []byte) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	for _, key := range []string{"request_spec", dataKey, "flavor", dataKey, "extra_specs"} {
		if err := enter(d, key); errors.Is(err, errAbsent) && key == "extra_specs" {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	var keys []string
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, err // null: there are none
	}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		keys = append(keys, fmt.Sprint(k))
		if err := skip(d); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// enter moves to the value of a key in the next object.
func enter(d *json.Decoder, key string) error {
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return err
		}
		if k == key {
			return nil
		}
		if err := skip(d); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w %s", errAbsent, key)
}

var errAbsent = errors.New("there is no")

func skip(d *json.Decoder) error {
	var v json.RawMessage
	return d.Decode(&v)
}
