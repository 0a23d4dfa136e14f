package schedule

import (
	"math"
	"slices"
	"strings"

	"cellgate/internal/python"
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
	v, err := python.ParseJSON(f.Metrics)
	switch {
	case err != nil:
		f.raises(field, python.NotJSON(err))
		return
	case v.Kind == python.KindText && v.Text == "", v.Kind == python.KindDict && v.Dict.Len() == 0:
		return // Nothing to iterate over.
	case v.Kind == python.KindText, v.Kind == python.KindDict: // Python iterates over letters or keys.
		v = python.Value{Kind: python.KindList, List: []python.Value{python.TextValue("")}}
	case v.Kind != python.KindList:
		f.fail(field, "TypeError: '%s' object is not iterable", v.TypeName())
		return
	}
	for i := range v.List {
		e := &v.List[i]
		switch e.Kind {
		case python.KindDict:
		case python.KindText, python.KindList:
			f.fail(field, "TypeError: nova.objects.monitor_metric.MonitorMetric() argument after ** must be a mapping, not %s", e.TypeName())
			return
		default:
			f.fail(field, "TypeError: argument of type '%s' is not iterable", e.TypeName())
			return
		}
		name, named := e.Dict.Lookup("name")
		at := metricIndex(name.Text)
		x, hasValue := e.Dict.Lookup("value")
		switch {
		case !named && hasValue:
			f.fail(field, "KeyError: 'name'")
			return
		case name.Kind != python.KindText || at < 0:
			f.fail(field, "ValueError: Field value %s is invalid", name.String())
			return
		}
		// If a name occurs several times, the last one counts.
		f.metrics[at] = metric{there: true}
		if hasValue {
			n, raised := metricValue(at, &x)
			if raised != nil {
				f.fail(field, "%s: %s: %s", raised.Class, name.Text, raised.Message)
				return
			}
			f.metrics[at].value, f.metrics[at].hasValue = n, true
		}
	}
}

// metricValue is Python's int(v), for percentages int(v * 100).
func metricValue(at int, v *python.Value) (float64, *python.Exception) {
	percent := at < percentCount
	n, ok := v.Number()
	switch {
	case ok && percent:
		n *= 100
	case ok:
	case v.Kind == python.KindNone && percent:
		return 0, python.NewException("TypeError", "unsupported operand type(s) for *: 'NoneType' and 'int'")
	case v.Kind == python.KindNone:
		return 0, python.ValueError("Field `value' cannot be None")
	case v.Kind == python.KindDict && percent:
		return 0, python.NewException("TypeError", "unsupported operand type(s) for *: 'dict' and 'int'")
	case v.Kind != python.KindText:
		return 0, python.NewException("TypeError", "int() argument must be a string, a bytes-like object or a real number, not '"+v.TypeName()+"'")
	default:
		s := v.Text
		if percent {
			s = strings.Repeat(s, 100) // Python repeats the text 100 times.
		}
		if n, ok = python.IntAsFloat(s); !ok {
			return 0, python.NotAnInt(s)
		}
		return n, nil
	}
	switch {
	case math.IsNaN(n):
		return 0, python.ValueError("cannot convert float NaN to integer")
	case math.IsInf(n, 0):
		return 0, python.NewException("OverflowError", "cannot convert float infinity to integer")
	}
	return math.Trunc(n), nil
}
