package selection

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"cellgate/schedule"
)

// ofOneProvider is allocationRequest, written at once, of what one provider gives and
// no group asks for, as nearly all do: the same text. "" for any other.
func ofOneProvider(of *schedule.Allocation) string {
	if len(of.Amounts) == 0 || len(of.Mappings) != 1 || of.Mappings[0].Suffix != "" || len(of.Mappings[0].Providers) != 1 {
		return ""
	}
	amounts := slices.Clone(of.Amounts)
	slices.SortFunc(amounts, func(a, b schedule.ProviderAmount) int { return cmp.Compare(a.Class, b.Class) })
	const around, item = 160, 24
	size := around
	for i, a := range amounts {
		if a.Provider != amounts[0].Provider || i > 0 && a.Class == amounts[i-1].Class || !isPlain(a.Class) {
			return ""
		}
		size += item + len(a.Class)
	}
	text := make([]byte, 0, size)
	text = append(text, `{"allocations":{"`...)
	text = append(text, amounts[0].Provider.String()...)
	text = append(text, `":{"resources":{`...)
	for i, a := range amounts {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = append(text, a.Class...)
		text = append(text, `":`...)
		text = strconv.AppendInt(text, a.N, 10)
	}
	text = append(text, `}}},"mappings":{"":["`...)
	text = append(text, of.Mappings[0].Providers[0].String()...)
	return string(append(text, `"]}}`...))
}

// isPlain reports whether JSON has a text as it is.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' })
}
