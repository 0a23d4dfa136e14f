package main

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// comments has the comments of declarations by their full names, each as one paragraph.
type comments map[protoreflect.FullName]string

func commentsOf(set *descriptorpb.FileDescriptorSet) comments {
	out := comments{}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		return out // the document's test demands comments
	}
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "cellgate.v1") {
			return true
		}
		add := func(d protoreflect.Descriptor) {
			if text := f.SourceLocations().ByDescriptor(d).LeadingComments; text != "" {
				out[d.FullName()] = strings.Join(strings.Fields(text), " ")
			}
		}
		enums := func(all protoreflect.EnumDescriptors) {
			for i := range all.Len() {
				add(all.Get(i))
				for k := range all.Get(i).Values().Len() {
					value := all.Get(i).Values().Get(k)
					// An enum value's full name does not include its enum's name.
					if text := f.SourceLocations().ByDescriptor(value).LeadingComments; text != "" {
						out[all.Get(i).FullName()+"."+protoreflect.FullName(value.Name())] = strings.Join(strings.Fields(text), " ")
					}
				}
			}
		}
		var messages func(protoreflect.MessageDescriptors)
		messages = func(all protoreflect.MessageDescriptors) {
			for i := range all.Len() {
				m := all.Get(i)
				add(m)
				for k := range m.Fields().Len() {
					add(m.Fields().Get(k))
				}
				enums(m.Enums())
				messages(m.Messages())
			}
		}
		enums(f.Enums())
		messages(f.Messages())
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			add(s)
			for k := range s.Methods().Len() {
				add(s.Methods().Get(k))
			}
		}
		return true
	})
	return out
}

// extension reads an extension of options. It gives the zero value when the extension is not set.
func extension[T any](options proto.Message, of protoreflect.ExtensionType) (value T) {
	if proto.HasExtension(options, of) {
		value, _ = proto.GetExtension(options, of).(T)
	}
	return value
}
