package expression

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

const (
	// maxCompared is how many values two maps or lists of facts may have if they are compared as a
	// whole.
	maxCompared = 256
	// maxSorted is how many keys a map may have that an expression iterates over.
	maxSorted = 512
)

// costs counts operations that CEL counts as one step although they cost more: those that walk nested
// values, and those on facts, whose types CEL does not know at compile time. CEL asks for the cost
// after the call, so the cost of one call is bounded where the call is made (maps.go, pattern.go).
type costs struct{ patterns patterns }

// CallCost returns nil for calls that CEL counts correctly.
func (c costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	var n int
	switch function {
	case operators.Equals, operators.NotEquals:
		if !container(args[0]) {
			return nil
		}
		if !sameSize(args[0], args[1]) {
			break
		}
		n = min(size(args[0]), size(args[1]))
	case operators.In:
		if _, isMap := args[1].(traits.Mapper); isMap {
			return nil
		}
		n = size(args[1])
	case overloads.Matches:
		p := c.patterns[textOf(args[1])]
		if p == nil {
			return nil
		}
		n = p.costOf(len(textOf(args[0])))
	case operators.Add:
		n = (len(textOf(args[0])) + len(textOf(args[1]))) / 10
	default:
		if function != overloads.Size && !overloads.IsTypeConversionFunction(function) {
			return nil
		}
		n = 1 + len(textOf(args[0]))/10
	}
	steps := uint64(max(n, 1))
	return &steps
}

// textOf returns a text's value; "" for other values.
func textOf(v ref.Val) string {
	switch x := v.(type) {
	case types.String:
		return string(x)
	case types.Bytes:
		return string(x)
	}
	return ""
}

func container(v ref.Val) bool {
	switch v.(type) {
	case traits.Mapper, traits.Lister:
		return true
	}
	return false
}

// sameSize reports whether two maps or lists must be walked to be compared.
func sameSize(a, b ref.Val) bool {
	if x, ok := a.(traits.Mapper); ok {
		y, ok := b.(traits.Mapper)
		return ok && x.Size() == y.Size()
	}
	if x, ok := a.(traits.Lister); ok {
		y, ok := b.(traits.Lister)
		return ok && x.Size() == y.Size()
	}
	return false
}

// size is the number of values in v, including v itself, up to some thousands.
func size(v ref.Val) int { return sizeWithin(v, 4*MaxCost) }

func sizeWithin(v ref.Val, most int) int {
	switch x := v.(type) {
	case sorted, list:
		return nativeSize(v.Value(), most)
	case traits.Lister:
		n := 1
		for i, all := types.Int(0), x.Size().(types.Int); i < all && n < most; i++ {
			n += sizeWithin(x.Get(i), most-n)
		}
		return n
	}
	return 1
}

func nativeSize(v any, most int) int {
	n := 1
	switch x := v.(type) {
	case map[string]any:
		for _, below := range x {
			if n >= most {
				break
			}
			n += nativeSize(below, most-n)
		}
	case []any:
		for _, below := range x {
			if n >= most {
				break
			}
			n += nativeSize(below, most-n)
		}
	case map[string]float64:
		n += len(x)
	}
	return n
}
