package rest

import (
	"strings"

	"cellgate/internal/fault"
)

// Bounds of a JSON body, checked before it is decoded: decoding costs more for deeper levels,
// and a value takes up to a hundred times its bytes.
const (
	// maxBodyDepth exceeds the bound of every field, such as limits.NovaDepth.
	maxBodyDepth = 128
	maxValues    = 1 << 18
)

// scanJSON counts the values of a JSON text without decoding it. If the text nests too deep or
// has too many values, it gives an error that names the field. Invalid JSON passes, since
// decoding reports it.
func scanJSON(text []byte) (values int, err error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = endOfText(text, i); i < 0 {
				return values, nil
			}
		case '{', '[':
			depth++
			values++
		case ',':
			values++
		case '}', ']':
			depth--
		}
		switch {
		case depth > maxBodyDepth:
			return values, fault.Invalid(topField(text, i), "nests more than %d lists and objects", maxBodyDepth)
		case values > maxValues:
			return values, fault.Invalid(topField(text, i), "with it the body has more than %d values", maxValues)
		}
	}
	return values, nil
}

// endOfText gives the index of the quote that ends the string which begins at i; -1 if there is none.
func endOfText(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++ // the escaped character
		}
	}
	return -1
}

// topField gives the body's top-level field that a byte belongs to.
func topField(text []byte, at int) string {
	path := fieldAt(text, int64(at))
	if end := strings.IndexAny(path, ".["); end > 0 {
		path = path[:end]
	}
	if path == "" {
		return wholeBody
	}
	return path
}
