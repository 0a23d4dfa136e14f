package schedule

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// FactTexts are what a compute node says of itself beyond amounts, as
// compute_nodes has them. An empty text is NULL. CPUInfo, SupportedInstances,
// Stats, Metrics, NUMATopology and PCIPools (the column pci_stats) are JSON.
type FactTexts struct {
	HypervisorType     string
	HypervisorHostname string
	HostIP             string
	CPUInfo            string
	SupportedInstances string
	Stats              string
	Metrics            string
	NUMATopology       string
	PCIPools           string
}

// Facts are FactTexts, read. They are immutable once a table has them: any
// number of hosts and versions share one.
type Facts struct {
	FactTexts
	// Failed has the fields that cannot be read, each with the exception it is
	// in Nova ("ValueError: …"). One such row fails every request there; here
	// the host is left out, see HostFilter.
	Failed map[string]string
	// Unfilled: the compute has not reported yet (free_disk_gb is NULL). Nova
	// keeps an empty host state for it, with no stats, metrics or ratios.
	Unfilled bool

	cpuInfo   value // absent when there is none or it is no JSON
	supported [][3]string
	instances value // supported, as Nova's list of lists
	stats     *dict
	metrics   [metricCount]metric
	ip        netip.Addr
	// hardware is as reported, without what picks of a query took; see
	// Edit.Take.
	hardware hardware
	platform string // the texts a platform is interned by
}

// statTexts makes texts of the stats' numbers, as the field of ComputeNode does
// (DictOfNullableStringsField).
func (f *Facts) statTexts() {
	for _, key := range f.stats.keys {
		v := f.stats.v[key]
		switch v.kind {
		case boolean, integer, long, float:
			f.stats.v[key] = textValue(v.String())
		case list, object:
			f.fail("stats", "ValueError: %s must be a text, not %s", key, v.typeName())
		}
	}
}

// metric is a MonitorMetric. Some have no value of their own, only one a NUMA
// node.
type metric struct {
	there, hasValue bool
	value           float64
}

// ParseFacts reads the texts. It does not fail: what cannot be read stands in
// Failed.
func ParseFacts(t FactTexts) *Facts {
	f := &Facts{FactTexts: t}
	f.platform = strings.Join([]string{t.HypervisorType, t.CPUInfo, t.SupportedInstances}, "\x00")
	if t.CPUInfo != "" {
		// A text that is no JSON is still a capability, as text.
		f.cpuInfo, _ = parseJSON(t.CPUInfo)
	}
	f.readSupported()
	f.readStats()
	f.readMetrics()
	f.readHardware()
	// An address that is none fails only who asks for one: see CIDRFilter.
	f.ip, _ = netip.ParseAddr(t.HostIP)
	return f
}

// HasAddress reports whether HostIP is an address.
func (f *Facts) HasAddress() bool { return f.ip.IsValid() }

func (f *Facts) fail(field, format string, args ...any) {
	if f.Failed == nil {
		f.Failed = map[string]string{}
	}
	f.Failed[field] = fmt.Sprintf(format, args...)
}

// readSupported reads [[architecture, hypervisor, mode], …] and canonicalises the
// words (nova/objects/hv_spec.py).
func (f *Facts) readSupported() {
	const field = "supported_instances"
	f.instances = value{kind: list}
	if f.SupportedInstances == "" {
		return
	}
	v, err := parseJSON(f.SupportedInstances)
	if err != nil {
		f.fail(field, "JSONDecodeError: %v", err)
		return
	}
	if v.kind != list {
		if v.truth() {
			f.fail(field, "TypeError: must be a list of [architecture, hypervisor, mode]")
		}
		return
	}
	for i := range v.list {
		e := &v.list[i]
		if e.kind != list || len(e.list) < 3 {
			f.fail(field, "IndexError: each must be [architecture, hypervisor, mode]")
			return
		}
		var s [3]string
		row := value{kind: list}
		for k, canonical := range []func(string) (string, bool){Architecture, HypervisorType, VMMode} {
			if e.list[k].kind != text {
				f.fail(field, "ValueError: %s is no word", e.list[k].String())
				return
			}
			word, ok := canonical(e.list[k].s)
			if !ok {
				f.fail(field, "ValueError: %q is not known", e.list[k].s)
				return
			}
			s[k] = word
			row.list = append(row.list, textValue(word))
		}
		f.supported = append(f.supported, s)
		f.instances.list = append(f.instances.list, row)
	}
}

func (f *Facts) readStats() {
	f.stats = &dict{}
	if f.Stats == "" {
		return
	}
	v, err := parseJSON(f.Stats)
	switch {
	case err != nil:
		f.fail("stats", "JSONDecodeError: %v", err)
	case v.kind == object:
		f.stats = v.dict
		f.statTexts()
	case v.truth():
		f.fail("stats", "ValueError: must be an object, not %s", v.typeName())
	}
}

// metricNames are all there are (nova/objects/fields.py, MonitorMetricType): first
// those that are stored as fractions.
var metricNames = [metricCount]string{
	"cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent", "cpu.percent",
	"cpu.frequency", "cpu.user.time", "cpu.kernel.time", "cpu.idle.time", "cpu.iowait.time",
	"numa.membw.max", "numa.membw.current",
}

const (
	metricCount  = 12
	percentCount = 5
)

// metricIndex is where a metric stands; below 0 when there is none of the name.
func metricIndex(name string) int { return slices.Index(metricNames[:], name) }

// readMetrics reads what monitors measured: values are integers, percentages are
// multiplied by 100 and cut (nova/objects/monitor_metric.py, from_json).
func (f *Facts) readMetrics() {
	if f.Metrics == "" {
		return
	}
	v, err := parseJSON(f.Metrics)
	if err != nil {
		f.fail("metrics", "JSONDecodeError: %v", err)
		return
	}
	for i := range v.list {
		e := &v.list[i]
		if e.kind != object {
			f.fail("metrics", "TypeError: each must be an object")
			return
		}
		name := e.dict.get("name")
		at := metricIndex(name.s)
		if name.kind != text || at < 0 {
			f.fail("metrics", "ValueError: Field value %s is invalid", name.repr(nil))
			return
		}
		// Of several of a name the last counts.
		f.metrics[at] = metric{there: true}
		if x := e.dict.get("value"); x.kind != absent {
			n, ok := metricValue(at, &x)
			if !ok {
				f.fail("metrics", "ValueError: %s has no number as value", name.s)
				return
			}
			f.metrics[at].value, f.metrics[at].hasValue = n, true
		}
	}
}

func metricValue(at int, v *value) (float64, bool) {
	n, ok := v.number()
	if v.kind == text {
		var i int64
		i, ok = parseInt(v.s)
		n = float64(i)
	}
	if ok && at < percentCount {
		n *= 100
	}
	if !ok || !(n > -1<<63 && n < 1<<63) {
		return 0, false
	}
	return float64(int64(n)), true
}

// platform is what hosts of one make share: filters that read nothing else are
// asked once a platform.
type platform struct {
	id      int
	facts   *Facts // of any of its hosts; may be nil
	version int64
}

// platformKey interns a host's platform.
func platformKey(h *Host, version int64) name {
	key := strconv.FormatInt(version, 10) + "\x00"
	if h.Facts == nil {
		return name(key)
	}
	if h.Facts.Unfilled {
		return name(key + "unfilled\x00")
	}
	return name(key + h.Facts.platform)
}
