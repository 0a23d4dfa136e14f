package sqlshard

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"cellgate/shard"
)

// usedText is the column text of what is in use on a host: {provider: {class: amount}}. The list must be sorted by
// provider, then class. Names are visible ASCII, which Go and JSON quote alike.
func usedText(list []shard.Used) string {
	if len(list) == 0 {
		return ""
	}
	b := make([]byte, 0, 64*len(list))
	for i, u := range list {
		switch {
		case i == 0:
			b = append(b, '{')
		case list[i-1].ProviderUUID == u.ProviderUUID:
			b = append(b, ',')
		default:
			b = append(b, '}', ',')
		}
		if i == 0 || list[i-1].ProviderUUID != u.ProviderUUID {
			b = append(strconv.AppendQuote(b, u.ProviderUUID), ':', '{')
		}
		b = append(strconv.AppendQuote(b, u.ResourceClass), ':')
		b = strconv.AppendInt(b, u.Amount, 10)
	}
	return string(append(b, '}', '}'))
}

func textUsed(text string) ([]shard.Used, error) {
	if text == "" {
		return nil, nil
	}
	var rows map[string]map[string]int64
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, damaged("what is in use on a host cannot be read: %v", err)
	}
	var list []shard.Used
	for provider, classes := range rows {
		for class, amount := range classes {
			list = append(list, shard.Used{ProviderUUID: provider, ResourceClass: class, Amount: amount})
		}
	}
	slices.SortFunc(list, func(a, b shard.Used) int {
		return cmp.Or(cmp.Compare(a.ProviderUUID, b.ProviderUUID), cmp.Compare(a.ResourceClass, b.ResourceClass))
	})
	return list, nil
}
