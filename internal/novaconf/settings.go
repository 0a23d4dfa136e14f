package novaconf

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"cellgate/internal/novarelease"
)

// Settings are the settings of nova.conf that cellgate follows. Options that the files do not set have
// Nova's default.
type Settings struct {
	// Filters to run, in order: those that always run, then the enabled ones.
	Filters []string
	// Weighers are in the order in which their scores are added.
	Weighers []Weigher
	// Values are the values of the other options that have an effect, by name ("[filter_scheduler]
	// host_subset_size"). Each is a string, bool, int, float64 or []string.
	Values map[string]any
	// PCIAliases are the entries of [pci] alias, in their order.
	PCIAliases []PCIAlias
	// ServiceDownTime is [DEFAULT] service_down_time, which Nova raises to 2.5 report_interval if it is not longer than
	// one; 0 if no file sets either.
	ServiceDownTime time.Duration
	// Placement is [placement], Neutron [neutron].
	Placement, Neutron Service
	// Notes are facts that an operator should know, and settings that may be deleted.
	Notes []Note
	// From maps an option's name ("[filter_scheduler] enabled_filters") to where its value is set:
	// file:line. Options that no file sets are missing.
	From map[string]string
	// WeighersFrom is where weight_classes and the multipliers are set.
	WeighersFrom string

	multipliers map[string]float64
}

// Weigher is a weigher and its multiplier.
type Weigher struct {
	Name       string
	Multiplier float64
}

// PCIAlias is an entry of [pci] alias, in Nova's JSON form; missing fields are empty.
type PCIAlias struct {
	Name           string `json:"name"`
	VendorID       string `json:"vendor_id"`
	ProductID      string `json:"product_id"`
	DeviceType     string `json:"device_type"`
	NUMAPolicy     string `json:"numa_policy"`
	CapabilityType string `json:"capability_type"`
	LiveMigratable string `json:"live_migratable"`
	ResourceClass  string `json:"resource_class"`
	Traits         string `json:"traits"`
}

// Note is a remark on the files that is not an error.
type Note struct {
	// Where is file:line.
	Where string
	// What is the option, or the filter in the option.
	What string
	// Why says why it can be deleted, or what happens instead.
	Why string
}

// Known says what cellgate has: the release of Nova, filters, weighers, and the check of aliases.
type Known struct {
	// Release is the release of Nova for which the files were written.
	Release novarelease.Release
	Filter  func(name string) bool
	Weigher func(name string) bool
	// PCIAliases returns the index of an alias that is wrong, on its own or beside those before it, and
	// why. Nil means no check.
	PCIAliases func([]PCIAlias) (index int, err error)
}

// Problems are all settings in the files that cellgate cannot follow.
type Problems struct{ List []string }

func (p *Problems) Error() string {
	if len(p.List) == 1 {
		return p.List[0]
	}
	return fmt.Sprintf("%d problems with nova.conf:\n  %s", len(p.List), strings.Join(p.List, "\n  "))
}

// Read reads files in order; later files win, as with several --config-file of Nova. Its error is a
// *Problems.
func Read(files []string, known Known) (*Settings, error) {
	src := &source{used: map[*assignment]bool{}}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			src.bad("%v", err)
			continue
		}
		all, problems := parseINI(name, string(text))
		src.all = append(src.all, all...)
		src.problems = append(src.problems, problems...)
	}
	s := &Settings{From: map[string]string{}, Values: map[string]any{}, multipliers: map[string]float64{}}
	t := &translation{Settings: s, source: src, known: known, values: map[place]value{}, set: map[place]*assignment{}}
	t.options()
	s.ServiceDownTime = t.serviceDownTime()
	t.filters()
	t.weighers()
	t.pciAliases()
	t.notifications()
	s.Placement, s.Neutron = t.service("placement"), t.service("neutron")
	t.routedNetworks()
	t.unknown()
	if len(src.problems) > 0 {
		return nil, &Problems{List: src.problems}
	}
	order := func(n Note) int {
		return slices.IndexFunc(src.all, func(a *assignment) bool { return a.at() == n.Where })
	}
	slices.SortStableFunc(s.Notes, func(a, b Note) int { return order(a) - order(b) })
	return s, nil
}

func (t *translation) serviceDownTime() time.Duration {
	down, report := place{"DEFAULT", "service_down_time"}, place{"DEFAULT", "report_interval"}
	if t.set[down] == nil && t.set[report] == nil {
		return 0
	}
	seconds, every := t.values[down].int, t.values[report].int
	if seconds <= every { // nova/servicegroup/api.py
		seconds = every * 5 / 2
	}
	return time.Duration(seconds) * time.Second
}

// WriteNotes prints notes as a table.
func WriteNotes(w io.Writer, notes []Note) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range notes {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\n", n.Where, n.What, n.Why); err != nil {
			return err
		}
	}
	return t.Flush()
}
