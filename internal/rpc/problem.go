package rpc

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/suggest"
)

// problemOf describes what is wrong with a field and what would be right, in terms that its caller
// knows.
func problemOf(v *protovalidate.Violation) string {
	rule, message := v.Proto.GetRuleId(), v.Proto.GetMessage()
	kind, name, _ := strings.Cut(rule, ".")
	got := v.FieldValue
	switch {
	case rule == "required", isEmpty(got) && (name == "min_len" || name == "min_items" || name == "min_pairs" || strings.HasPrefix(name, "uuid")):
		return "is required"
	case name == "uuid":
		return fmt.Sprintf("%s is not a uuid", quoted(got.String()))
	case kind == "repeated" && (name == "min_items" || name == "max_items"):
		return fmt.Sprintf("has %d items; %s %v are possible", got.List().Len(), atLeastOrMost[name[:3]], v.RuleValue.Interface())
	case kind == "map" && (name == "min_pairs" || name == "max_pairs"):
		return fmt.Sprintf("has %d entries; %s %v are possible", got.Map().Len(), atLeastOrMost[name[:3]], v.RuleValue.Interface())
	case kind == "string" && (name == "min_len" || name == "max_len"):
		return fmt.Sprintf("has %d characters; %s %v are possible", utf8.RuneCountInString(got.String()), atLeastOrMost[name[:3]], v.RuleValue.Interface())
	case kind == "string" && name == "max_bytes":
		return fmt.Sprintf("has %d bytes; at most %v are possible", len(got.String()), v.RuleValue.Interface())
	case kind == "bytes" && name == "max_len":
		return fmt.Sprintf("has %d bytes; at most %v are possible", len(got.Bytes()), v.RuleValue.Interface())
	case kind == "string" && name == "pattern":
		pattern := v.RuleValue.String()
		return quoted(got.String()) + " " + cmp.Or(patterns[pattern], "does not match "+pattern)
	case kind == "string" && name == "in":
		values := textsOf(v.RuleValue.List())
		return fmt.Sprintf("%s is none of %s%s", quoted(got.String()), strings.Join(values, ", "), suggest.MeantOf(got.String(), values, 2))
	case rule == "repeated.unique":
		return "has a value twice"
	case rule == "enum.not_in":
		return "is required"
	case kind == "duration":
		return fmt.Sprintf("is %s; it %s", got.Message().Interface().(*durationpb.Duration).AsDuration(), bounds.Replace(message))
	case rule == "enum.defined_only":
		return fmt.Sprintf("is %d; the values are %s", got.Enum(), valuesOf(v.FieldDescriptor.Enum()))
	case message == "":
		return "breaks the rule " + rule
	case isNumber(got):
		return fmt.Sprintf("is %v; it %s", got.Interface(), bounds.Replace(message))
	}
	return message
}

var (
	atLeastOrMost = map[string]string{"min": "at least", "max": "at most"}
	bounds        = strings.NewReplacer("greater than or equal to", "at least", "less than or equal to", "at most", "greater than", "above", "less than", "below")
)

// patterns explain the patterns of fields.
var patterns = map[string]string{
	"^[A-Z0-9_]+$":      "may have A-Z, 0-9 and _ only",
	"^[a-z][a-z0-9_]*$": "must begin with a-z, and may have a-z, 0-9 and _ only",
	"^[!-~]*$":          "may have visible ASCII characters only, and no blank",
}

// textsOf returns the texts of a list that are not empty.
func textsOf(list protoreflect.List) (texts []string) {
	for i := range list.Len() {
		if text := list.Get(i).String(); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

func isEmpty(v protoreflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	switch got := v.Interface().(type) {
	case string:
		return got == ""
	case []byte:
		return len(got) == 0
	case protoreflect.List:
		return got.Len() == 0
	case protoreflect.Map:
		return got.Len() == 0
	}
	return false
}

func isNumber(v protoreflect.Value) bool {
	if !v.IsValid() {
		return false
	}
	switch v.Interface().(type) {
	case int32, int64, uint32, uint64, float32, float64:
		return true
	}
	return false
}

// quoted is a text in quotes, cut after 40 bytes.
func quoted(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return fmt.Sprintf("%q", s)
}

func valuesOf(e protoreflect.EnumDescriptor) string {
	var names []string
	for i := range e.Values().Len() {
		names = append(names, string(e.Values().Get(i).Name()))
	}
	return strings.Join(names, ", ")
}
