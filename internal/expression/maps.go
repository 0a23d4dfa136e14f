package expression

import (
	"cmp"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// adapter converts Go values to CEL values. Maps are iterated over in the order of their keys, so that
// an answer does not depend on Go's random order.
type adapter struct{}

func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return sorted{types.NewStringInterfaceMap(a, v)}
	case map[string]float64:
		return sorted{types.NewDynamicMap(a, v)}
	case []any:
		return list{types.NewDynamicList(a, v)}
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// sorted is a map whose iteration orders keys by type, then by value.
type sorted struct{ traits.Mapper }

// Equal ends the evaluation if it would compare more than maxCompared values.
func (m sorted) Equal(other ref.Val) ref.Val {
	if sameSize(m, other) && size(m) > maxCompared {
		giveUp()
	}
	return m.Mapper.Equal(other)
}

// Iterator ends the evaluation if there are more than maxSorted keys.
func (m sorted) Iterator() traits.Iterator {
	if n, _ := m.Size().(types.Int); n > maxSorted {
		giveUp()
	}
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		if c := cmp.Compare(a.Type().TypeName(), b.Type().TypeName()); c != 0 {
			return c
		}
		if x, ok := a.(traits.Comparer); ok {
			if c, ok := x.Compare(b).(types.Int); ok {
				return int(c)
			}
		}
		return 0
	})
	return types.NewRefValList(adapter{}, keys).Iterator()
}

// list is a list of facts.
type list struct{ traits.Lister }

// Equal ends the evaluation if it would compare more than maxCompared values.
func (l list) Equal(other ref.Val) ref.Val {
	if sameSize(l, other) && size(l) > maxCompared {
		giveUp()
	}
	return l.Lister.Equal(other)
}
