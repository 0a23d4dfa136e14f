package schedule

import (
	"math"
	"slices"
	"strings"
)

// metric is a MonitorMetric. Some metrics have no value of their own, only one for each NUMA node.
type metric struct {
	there, hasValue bool
	value           float64
}

// metricNames are all metrics (nova/objects/fields.py, MonitorMetricType). The first percentCount are stored as
// fractions.
var metricNames = [metricCount]string{
	"cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent",
	"cpu.frequency", "cpu.user.time", "cpu.kernel.time", "cpu.idle.time", "cpu.iowait.time",
	"numa.membw.max", "numa.membw.current",
}

const (
	metricCount  = 12
	percentCount = 5
)

// metricIndex is a metric's index in metricNames; below 0 for an unknown name.
func metricIndex(name string) int { return slices.Index(metricNames[:], name) }

// readMetrics reads the metrics of monitors. Values are integers; percentages are multiplied by 100 and truncated
// (nova/objects/monitor_metric.py, from_json).
func (f *Facts) readMetrics() {
	if f.Metrics == "" {
		return
	}
	const field = "metrics"
	v, err := parseJSON(f.Metrics)
	switch {
	case err != nil:
		f.raises(field, notJSON(err))
		return
	case v.kind == text && v.s == "", v.kind == object && len(v.dict.keys) == 0:
		return // Nothing to iterate over.
	case v.kind == text, v.kind == object: // Python iterates over letters or keys.
		v = value{kind: list, list: []value{textValue("")}}
	case v.kind != list:
		f.fail(field, "TypeError: '%s' object is not iterable", v.typeName())
		return
	}
	for i := range v.list {
		e := &v.list[i]
		switch e.kind {
		case object:
		case text, list:
			f.fail(field, "TypeError: nova.objects.monitor_metric.MonitorMetric() argument after ** must be a mapping, not %s", e.typeName())
			return
		default:
			f.fail(field, "TypeError: argument of type '%s' is not iterable", e.typeName())
			return
		}
		name, named := e.dict.v["name"]
		at := metricIndex(name.s)
		x, hasValue := e.dict.v["value"]
		switch {
		case !named && hasValue:
			f.fail(field, "KeyError: 'name'")
			return
		case name.kind != text || at < 0:
			f.fail(field, "ValueError: Field value %s is invalid", name.String())
			return
		}
		// If a name occurs several times, the last one counts.
		f.metrics[at] = metric{there: true}
		if hasValue {
			n, raised := metricValue(at, &x)
			if raised != nil {
				f.fail(field, "%s: %s: %s", raised.class, name.s, raised.message)
				return
			}
			f.metrics[at].value, f.metrics[at].hasValue = n, true
		}
	}
}

// metricValue is Python's int(v), for percentages int(v * 100).
func metricValue(at int, v *value) (float64, *pyError) {
	percent := at < percentCount
	n, ok := v.number()
	switch {
	case ok && percent:
		n *= 100
	case ok:
	case v.kind == absent && percent:
		return 0, &pyError{"TypeError", "unsupported operand type(s) for *: 'NoneType' and 'int'"}
	case v.kind == absent:
		return 0, valueError("Field `value' cannot be None")
	case v.kind == object && percent:
		return 0, &pyError{"TypeError", "unsupported operand type(s) for *: 'dict' and 'int'"}
	case v.kind != text:
		return 0, &pyError{"TypeError", "int() argument must be a string, a bytes-like object or a real number, not '" + v.typeName() + "'"}
	default:
		s := v.s
		if percent {
			s = strings.Repeat(s, 100) // Python repeats the text 100 times.
		}
		if n, ok = parseBigInt(s); !ok {
			return 0, notAnInt(s)
		}
		return n, nil
	}
	switch {
	case math.IsNaN(n):
		return 0, valueError("cannot convert float NaN to integer")
	case math.IsInf(n, 0):
		return 0, &pyError{"OverflowError", "cannot convert float infinity to integer"}
	}
	return math.Trunc(n), nil
}
