package main

import (
	"fmt"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ref points to a schema of the document.
func ref(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// nameOf gives the name of a message or enum in the document: its name without the package.
func nameOf(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), "cellgate.v1.")
}

// wellKnown are messages that JSON writes in a form of their own.
var wellKnown = map[protoreflect.FullName]object{
	"google.protobuf.Timestamp": {{"type", "string"}, {"format", "date-time"}},
	"google.protobuf.Duration":  {{"type", "string"}, {"pattern", `^-?[0-9]+(\.[0-9]{1,9})?s$`}, {"examples", []string{"300s", "0.25s"}}},
	"google.protobuf.Struct":    {{"type", "object"}, {"additionalProperties", true}},
	"google.protobuf.Any": {
		{"type", "object"},
		{"properties", object{{"@type", object{{"type", "string"}}}}},
		{"required", []string{"@type"}},
		{"additionalProperties", true},
	},
}

// bounds are the rules of buf.validate that become members of a schema, by their names there.
var bounds = []struct {
	rule   protoreflect.Name
	member string
}{
	{"max_pairs", "maxProperties"},
	{"min_items", "minItems"},
	{"max_items", "maxItems"},
	{"unique", "uniqueItems"},
	{"gte", "minimum"},
	{"gt", "exclusiveMinimum"},
	{"lte", "maximum"},
	{"min_len", "minLength"},
}

// bounded adds a member for each rule of a type that bounds lists.
func (o object) bounded(rules proto.Message) object {
	m := rules.ProtoReflect()
	for _, b := range bounds {
		if f := m.Descriptor().Fields().ByName(b.rule); f != nil && m.Has(f) {
			o = o.with(b.member, m.Get(f).Interface())
		}
	}
	return o
}

// schema gives a field's schema; answered says that the gateway writes it.
func (d *document) schema(f protoreflect.FieldDescriptor, answered bool) object {
	rules := extension[*validate.FieldRules](f.Options(), validate.E_Field)
	var out object
	switch {
	case f.IsMap():
		out = object{{"type", "object"}, {"additionalProperties", d.one(f.MapValue(), rules.GetMap().GetValues(), answered)}}.bounded(rules.GetMap())
	case f.IsList():
		out = object{{"type", "array"}, {"items", d.one(f, rules.GetRepeated().GetItems(), answered)}}.bounded(rules.GetRepeated())
	default:
		out = d.one(f, rules, answered)
	}
	return out.with("description", d.comments[f.FullName()])
}

// plainKinds are the schemas of kinds to which no rule adds anything.
var plainKinds = map[protoreflect.Kind]object{
	protoreflect.BoolKind:   {{"type", "boolean"}},
	protoreflect.BytesKind:  {{"type", "string"}, {"contentEncoding", "base64"}},
	protoreflect.Uint32Kind: {{"type", "integer"}, {"minimum", 0}, {"maximum", 1<<32 - 1}},
	protoreflect.Int64Kind:  {{"type", "string"}, {"format", "int64"}, {"pattern", "^-?[0-9]+$"}},
	protoreflect.Uint64Kind: {{"type", "string"}, {"format", "uint64"}, {"pattern", "^[0-9]+$"}},
}

// one gives the schema of a field's single value.
func (d *document) one(f protoreflect.FieldDescriptor, rules *validate.FieldRules, answered bool) object {
	switch f.Kind() {
	case protoreflect.StringKind:
		return text(rules)
	case protoreflect.Int32Kind:
		return object{{"type", "integer"}, {"format", "int32"}}.bounded(rules.GetInt32())
	case protoreflect.DoubleKind:
		return object{{"type", "number"}, {"format", "double"}}.bounded(rules.GetDouble())
	case protoreflect.EnumKind:
		d.enum(f.Enum())
		return ref(nameOf(f.Enum()))
	case protoreflect.MessageKind:
		if known, ok := wellKnown[f.Message().FullName()]; ok {
			return slices.Clip(known)
		}
		d.message(f.Message(), nil, answered)
		return ref(nameOf(f.Message()))
	}
	plain, ok := plainKinds[f.Kind()]
	if !ok {
		panic(fmt.Sprintf("%s: there is no schema of %s", f.FullName(), f.Kind())) // whoever adds such a field adds one
	}
	return slices.Clip(plain)
}

// text gives the schema of a text.
func text(rules *validate.FieldRules) object {
	out := object{{"type", "string"}}
	r := rules.GetString()
	empty := rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
	switch {
	case r.GetUuid() && empty:
		out = out.with("pattern", "^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?$")
	case r.GetUuid():
		out = out.with("format", "uuid")
	default:
		out = out.with("pattern", r.GetPattern())
	}
	out = out.bounded(r)
	if n := max(r.GetMaxLen(), r.GetMaxBytes()); n > 0 {
		out = out.with("maxLength", n)
	}
	if len(r.GetIn()) > 0 {
		out = out.with("enum", r.GetIn())
	}
	return out
}

// demanded reports whether a request must set a field: the gateway refuses its zero value.
func demanded(f protoreflect.FieldDescriptor) bool {
	rules := extension[*validate.FieldRules](f.Options(), validate.E_Field)
	if rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE {
		return false
	}
	return rules.GetRequired() || rules.GetRepeated().GetMinItems() > 0 || rules.GetString().GetMinLen() > 0 || rules.GetString().GetUuid() ||
		len(rules.GetEnum().GetNotIn()) > 0 || rules.GetString().GetPattern() != ""
}

// written reports whether the gateway writes a field in every answer. It leaves out messages, and
// fields that may be unset.
func written(f protoreflect.FieldDescriptor) bool { return !f.HasPresence() }

// message adds the schema of a message, without the fields that the path has.
func (d *document) message(m protoreflect.MessageDescriptor, without map[string]bool, answered bool) {
	name := nameOf(m)
	if d.schemas.add(name) {
		if d.answers[name] != answered {
			// An answer always has these fields; a request need not.
			d.schemas[name] = slices.DeleteFunc(d.schemas[name], func(m member) bool { return m.name == "required" || m.name == "additionalProperties" })
		}
		return
	}
	d.answers[name] = answered
	properties, required := object{}, []string{}
	about := d.comments[m.FullName()]
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if without[string(f.Name())] {
			continue
		}
		properties = properties.with(string(f.Name()), d.schema(f, answered))
		if answered && written(f) || !answered && demanded(f) {
			required = append(required, string(f.Name()))
		}
	}
	for i := range m.Oneofs().Len() {
		one := m.Oneofs().Get(i)
		if one.IsSynthetic() {
			continue
		}
		var names []string
		for k := range one.Fields().Len() {
			names = append(names, string(one.Fields().Get(k).Name()))
		}
		about = strings.TrimSpace(fmt.Sprintf("%s One of %s is set.", about, strings.Join(names, ", ")))
	}
	out := object{{"type", "object"}}.with("description", about).with("properties", properties)
	if len(required) > 0 {
		out = out.with("required", required)
	}
	if !answered {
		out = out.with("additionalProperties", false)
	}
	d.schemas[name] = out
}

func (d *document) enum(e protoreflect.EnumDescriptor) {
	name := nameOf(e)
	if d.schemas.add(name) {
		return
	}
	var values, about []string
	if text := d.comments[e.FullName()]; text != "" {
		about = append(about, text)
	}
	for i := range e.Values().Len() {
		value := e.Values().Get(i)
		values = append(values, string(value.Name()))
		if text := d.comments[e.FullName()+"."+protoreflect.FullName(value.Name())]; text != "" {
			about = append(about, fmt.Sprintf("%s: %s", value.Name(), text))
		}
	}
	d.schemas[name] = object{{"type", "string"}, {"enum", values}}.with("description", strings.Join(about, "\n"))
}

// schemas are the document's, by name.
type schemas map[string]object

// add reserves a name, and reports whether the document already had it.
func (s schemas) add(name string) bool {
	_, there := s[name]
	if !there {
		s[name] = nil
	}
	return there
}
