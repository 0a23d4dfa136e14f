package rest

import (
	"strings"

	"cellgate/internal/fault"
)

// Bounds of a JSON body, which are checked before anything is decoded: a level costs more the
// deeper it is, and a value takes up to a hundred times its bytes.
const (
	// maxBodyDepth is above every bound of a field, such as maxDepth.
	maxBodyDepth = 128
	maxValues    = 1 << 18
)

// scanJSON counts the values of a JSON text without decoding it. It refuses one that nests too
// deep or has too many values, by the name of the field that has them. What is no JSON passes:
// decoding says so.
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

// endOfText gives where the text that begins at i ends; -1 when it does not.
func endOfText(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++ // what is escaped
		}
	}
	return -1
}

// topField gives the name of the body's field in which a byte is.
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
