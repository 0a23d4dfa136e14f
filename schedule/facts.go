package schedule

import (
	"fmt"
	"net/netip"
	"strconv"

	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// FactTexts are what a compute node reports beyond amounts, as in the table compute_nodes. An empty text is NULL
// where the column allows it; CPUInfo and HypervisorType are never NULL. CPUInfo, SupportedInstances, Stats, Metrics,
// NUMATopology and PCIPools (the column pci_stats) are JSON.
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

// Facts are parsed FactTexts. They are immutable once a table has them: hosts and versions share them.
type Facts struct {
	FactTexts
	// Failed are the fields that cannot be read, each with the exception that Nova raises ("ValueError: …"). One such
	// row fails every request in Nova; here only the host is left out, see HostFilter.
	Failed map[string]string
	// Unfilled: the compute has not reported yet (free_disk_gb is NULL). Nova keeps an empty host state for such a
	// host, without stats, metrics or ratios.
	Unfilled bool

	*hostPlatform
	stats   *python.Dict
	metrics [metricCount]metric
	ip      netip.Addr
	// hardware is what is free: as reported, or less what claims and picks take (Edit.SetAssigned, Edit.Take). Then
	// reported is the hardware as reported; else nil.
	hardware hardware.Host
	reported *hardware.Host
}

// statTexts converts numbers in the stats to texts, as ComputeNode's field does (DictOfNullableStringsField).
func (f *Facts) statTexts() {
	for key, v := range f.stats.All() {
		switch v.Kind {
		case python.KindBool, python.KindInt, python.KindLong, python.KindFloat:
			f.stats.Set(key, python.TextValue(v.String()))
		case python.KindList, python.KindDict:
			f.fail("stats", "ValueError: A string is required in field stats[%s], not a %s", key, v.TypeName())
		}
	}
}

// ParseFacts parses the texts. It does not fail: what cannot be read is in Failed.
func ParseFacts(t FactTexts) *Facts {
	f := &Facts{FactTexts: t, hostPlatform: platformOf(t)}
	if f.hostPlatform.failed != "" {
		f.fail("supported_instances", "%s", f.hostPlatform.failed)
	}
	f.readStats()
	f.readMetrics()
	f.readHardware()
	// An invalid address fails only requests that ask for addresses: see CIDRFilter.
	f.ip, _ = python.Address(t.HostIP)
	return f
}

// Supported are the architecture, hypervisor and mode of each kind of instance that the
// host runs, by Nova's names.
func (f *Facts) Supported() [][3]string { return f.supported }

// HasAddress reports whether HostIP is an address.
func (f *Facts) HasAddress() bool { return f.ip.IsValid() }

func (f *Facts) fail(field, format string, args ...any) {
	if f.Failed == nil {
		f.Failed = map[string]string{}
	}
	f.Failed[field] = fmt.Sprintf(format, args...)
}

func (f *Facts) raises(field string, err *python.Exception) {
	f.fail(field, "%s: %s", err.Class, err.Message)
}

// firstFailed is the unreadable field that Nova reads first.
func (f *Facts) firstFailed() string {
	order := []string{"host_ip", "supported_instances", "pci_stats", "numa_topology", "stats", "metrics"}
	for _, field := range order {
		if _, failed := f.Failed[field]; failed {
			return field
		}
	}
	return ""
}

func (f *Facts) readStats() {
	f.stats = &python.Dict{}
	if f.Stats == "" {
		return
	}
	v, err := python.ParseJSON(f.Stats)
	switch {
	case err != nil:
		f.raises("stats", python.NotJSON(err))
	case v.Kind == python.KindDict:
		f.stats = v.Dict
		f.stats.Coerced = f.stats.Len() > 0
		f.statTexts()
	case v.Kind != python.KindNone:
		f.fail("stats", "ValueError: A dict is required in field stats, not a %s", v.TypeName())
	}
}

// Counter gives a counter of the stats as Nova reads it, int(stats.get(key, 0)), or the exception that this raises.
func (f *Facts) Counter(key string) (n int64, exception string) {
	switch v, ok := f.stats.Lookup(key); {
	case !ok:
		return 0, ""
	case v.Kind == python.KindNone:
		return 0, "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"
	default:
		// Every other value was converted to text.
		if n, ok = python.Int(v.Text); !ok {
			return 0, "ValueError: " + key + ": " + python.NotAnInt(v.Text).Message
		}
		return n, ""
	}
}

// platform is what similar hosts share: filters that read nothing else judge each platform once.
type platform struct {
	id      int
	facts   *Facts // of any of its hosts; may be nil
	version int64
}

// platformKey is equal for hosts of the same platform.
func platformKey(h *Host, version int64) name {
	key := strconv.FormatInt(version, 10) + "\x00"
	if h.Facts == nil {
		return name(key)
	}
	if h.Facts.Unfilled {
		return name(key + "unfilled\x00")
	}
	return name(key + h.Facts.key)
}
