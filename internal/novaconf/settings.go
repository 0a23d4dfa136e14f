package novaconf

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"cellgate/internal/novarelease"
)

// Settings are what nova.conf says, as far as cellgate goes by it. What the files
// do not say is Nova's default.
type Settings struct {
	// Filters to run, in order: those that always run, then those enabled.
	Filters []string
	// Weighers in the order their scores are added.
	Weighers []Weigher
	// Values are those of the other options that count here, by name ("[filter_scheduler]
	// host_subset_size"): a string, bool, int, float64 or []string.
	Values map[string]any
	// PCIAliases are the entries of [pci] alias, in their order.
	PCIAliases []PCIAlias
	// Placement is [placement], Neutron [neutron].
	Placement, Neutron Service
	// Notes are what an operator should know and may delete.
	Notes []Note
	// From says, by the option's name ("[filter_scheduler] enabled_filters"),
	// where its value is set: file:line. Options that no file sets are not there.
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

// PCIAlias is an entry of [pci] alias, as Nova's JSON has it; fields that it does not have are empty.
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

// Note is something about the files that is not an error.
type Note struct {
	// Where is file:line.
	Where string
	// What is the option, or the filter in it.
	What string
	// Why it can be deleted, or what happens instead.
	Why string
}

// Known says what there is besides Nova's names: whether cellgate has a filter,
// a weigher.
type Known struct {
	// Release of the Nova that the files were written for.
	Release novarelease.Release
	Filter  func(name string) bool
	Weigher func(name string) bool
	// PCIAliases says which of them is wrong, by itself or beside those before it, and
	// how. Nil: nobody says.
	PCIAliases func([]PCIAlias) (index int, err error)
}

// Problems is everything in the files that cellgate cannot go by.
type Problems struct{ List []string }

func (p *Problems) Error() string {
	if len(p.List) == 1 {
		return p.List[0]
	}
	return fmt.Sprintf("%d problems with nova.conf:\n  %s", len(p.List), strings.Join(p.List, "\n  "))
}

// Read reads files in order; a later file wins, as with several --config-file of
// Nova. Its error is a *Problems.
func Read(files []string, known Known) (*Settings, error) {
	src := &source{used: map[*assignment]bool{}}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			src.bad("%v", err)
			continue
		}
		all, problems := parseINI(name, string(text))
		src.files = append(src.files, all)
		src.problems = append(src.problems, problems...)
	}
	s := &Settings{From: map[string]string{}, Values: map[string]any{}, multipliers: map[string]float64{}}
	t := &translation{Settings: s, source: src, known: known, values: map[place]value{}, set: map[place]*assignment{}}
	t.options()
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
	slices.SortStableFunc(s.Notes, func(a, b Note) int { return t.order(a.Where) - t.order(b.Where) })
	return s, nil
}

// WriteNotes prints notes under each other.
func WriteNotes(w io.Writer, notes []Note) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range notes {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\n", n.Where, n.What, n.Why); err != nil {
			return err
		}
	}
	return t.Flush()
}
