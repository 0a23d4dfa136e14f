package main

import (
	"fmt"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ref points to a schema of the document.
func ref(name string) object { return object{{"$ref", "#/components/schemas/" + name}} }

// nameOf names a message or enum in the document: without its package.
func nameOf(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), "cellgate.v1.")
}

// wellKnown are messages that have a form of their own in JSON.
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

// schema gives a field's schema; answered says that the gateway writes it.
func (d *document) schema(f protoreflect.FieldDescriptor, answered bool) object {
	rules := extension[*validate.FieldRules](f.Options(), validate.E_Field)
	about := d.comments[f.FullName()]
	if f.IsMap() {
		values := rules.GetMap().GetValues()
		out := object{{"type", "object"}, {"additionalProperties", d.one(f.MapValue(), values, answered)}}
		if rules.GetMap().HasMaxPairs() {
			out = out.with("maxProperties", rules.GetMap().GetMaxPairs())
		}
		return out.with("description", about)
	}
	if f.IsList() {
		list := rules.GetRepeated()
		out := object{{"type", "array"}, {"items", d.one(f, list.GetItems(), answered)}}
		if list.GetMinItems() > 0 {
			out = out.with("minItems", list.GetMinItems())
		}
		if list.GetMaxItems() > 0 {
			out = out.with("maxItems", list.GetMaxItems())
		}
		if list.GetUnique() {
			out = out.with("uniqueItems", true)
		}
		return out.with("description", about)
	}
	return d.one(f, rules, answered).with("description", about)
}

// one gives the schema of a single value of a field.
func (d *document) one(f protoreflect.FieldDescriptor, rules *validate.FieldRules, answered bool) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return object{{"type", "boolean"}}
	case protoreflect.StringKind:
		return text(rules)
	case protoreflect.BytesKind:
		return object{{"type", "string"}, {"contentEncoding", "base64"}}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		out := object{{"type", "integer"}, {"format", "int32"}}
		if r := rules.GetInt32(); r != nil {
			if r.HasGte() {
				out = out.with("minimum", r.GetGte())
			}
			if r.HasLte() {
				out = out.with("maximum", r.GetLte())
			}
		}
		return out
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return object{{"type", "integer"}, {"minimum", 0}, {"maximum", 1<<32 - 1}}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return object{{"type", "string"}, {"format", "int64"}, {"pattern", "^-?[0-9]+$"}}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return object{{"type", "string"}, {"format", "uint64"}, {"pattern", "^[0-9]+$"}}
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		out := object{{"type", "number"}, {"format", "double"}}
		if r := rules.GetDouble(); r != nil {
			if r.HasGte() {
				out = out.with("minimum", r.GetGte())
			}
			if r.HasGt() {
				out = out.with("exclusiveMinimum", r.GetGt())
			}
			if r.HasLte() {
				out = out.with("maximum", r.GetLte())
			}
		}
		return out
	case protoreflect.EnumKind:
		d.enum(f.Enum())
		return ref(nameOf(f.Enum()))
	}
	if known, ok := wellKnown[f.Message().FullName()]; ok {
		return known[:len(known):len(known)]
	}
	d.message(f.Message(), nil, answered)
	return ref(nameOf(f.Message()))
}

// text gives the schema of a text.
func text(rules *validate.FieldRules) object {
	out := object{{"type", "string"}}
	r := rules.GetString()
	if r == nil {
		return out
	}
	empty := rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
	switch {
	case r.GetUuid() && empty:
		out = out.with("pattern", "^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})?$")
	case r.GetUuid():
		out = out.with("format", "uuid")
	case r.GetPattern() != "":
		out = out.with("pattern", r.GetPattern())
	}
	if r.GetMinLen() > 0 {
		out = out.with("minLength", r.GetMinLen())
	}
	if n := max(r.GetMaxLen(), r.GetMaxBytes()); n > 0 {
		out = out.with("maxLength", n)
	}
	if len(r.GetIn()) > 0 {
		out = out.with("enum", r.GetIn())
	}
	return out
}

// demanded reports whether a request must have a field: its zero value is refused.
func demanded(f protoreflect.FieldDescriptor) bool {
	rules := extension[*validate.FieldRules](f.Options(), validate.E_Field)
	if rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE {
		return false
	}
	return rules.GetRequired() || rules.GetRepeated().GetMinItems() > 0 || rules.GetString().GetMinLen() > 0 || rules.GetString().GetUuid() ||
		len(rules.GetEnum().GetNotIn()) > 0 || rules.GetString().GetPattern() != ""
}

// written reports whether the gateway writes a field of every answer: all but messages and those
// that may be unset.
func written(f protoreflect.FieldDescriptor) bool { return !f.HasPresence() }

// message adds the schema of a message, without the fields that are elsewhere in the request.
func (d *document) message(m protoreflect.MessageDescriptor, without map[string]bool, answered bool) {
	name := nameOf(m)
	if d.schemas.add(name) {
		if d.answers[name] != answered {
			// What an answer always has, a request need not.
			d.schemas[name] = slices.DeleteFunc(d.schemas[name], func(m member) bool { return m.name == "required" || m.name == "additionalProperties" })
		}
		return
	}
	d.answers[name] = answered
	var properties object
	required := []string{}
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
	out := object{{"type", "object"}}
	if properties == nil {
		properties = object{}
	}
	out = out.with("description", about).with("properties", properties)
	if len(required) > 0 {
		out = out.with("required", required)
	}
	if !answered {
		out = out.with("additionalProperties", false)
	}
	d.schemas.set(name, out)
}

func (d *document) enum(e protoreflect.EnumDescriptor) {
	name := nameOf(e)
	if d.schemas.add(name) {
		return
	}
	var values []string
	about := []string{}
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
	d.schemas.set(name, object{{"type", "string"}, {"enum", values}}.with("description", strings.Join(about, "\n")))
}

// schemas are the document's, by name.
type schemas map[string]object

// add reserves a name, and reports whether it is there already.
func (s schemas) add(name string) bool {
	_, there := s[name]
	if !there {
		s[name] = nil
	}
	return there
}

func (s schemas) set(name string, o object) { s[name] = o }
