package nova

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/python"
	"cellgate/schedule"
)

// novaRequest gathers what only Nova's own filters and weighers read. Keys that
// none of them reads are left out, so that they do not tell shapes apart.
func (f *findings) novaRequest(s *Spec) *schedule.NovaRequest {
	n := &schedule.NovaRequest{
		Flavor: schedule.Flavor{
			ID: s.Flavor.ID, Name: f.name(s.Path+".flavor.name", s.Flavor.Name),
			VCPUs: s.Flavor.VCPUs, MemoryMB: s.Flavor.MemoryMB, RootGB: s.Flavor.RootGB,
			EphemeralGB: s.Flavor.EphemeralGB, SwapMB: s.Flavor.SwapMB,
		},
		ProjectID: s.ProjectID,
		Retry:     s.Retry,
	}
	for _, key := range sortedKeys(s.Flavor.ExtraSpecs) {
		if len(comparedBy(key)) > 0 && f.options.knows(key) {
			n.Flavor.ExtraSpecs = append(n.Flavor.ExtraSpecs, schedule.Pair{Key: key, Value: s.Flavor.ExtraSpecs[key]})
		}
	}
	if s.HasImage || s.ImageID != "" || len(s.ImageProperties) > 0 {
		n.Image = &schedule.Image{ID: s.ImageID, Properties: s.Typed}
		if s.Typed == nil {
			n.Image.Properties = f.properties(s)
		}
		n.Image.Properties = f.known(n.Image.Properties)
		f.imageNames(s, n.Image)
	}
	for _, name := range sortedKeys(s.Hints) {
		isPassed := look(schedulerHints, name).care == honoured && name != checkTypeHint && name != groupHint
		if isPassed && len(s.Hints[name]) > 0 {
			n.Hints = append(n.Hints, schedule.Hint{Name: name, Values: s.Hints[name]})
		}
	}
	s.numa(n, f.options)
	return n
}

// known leaves out properties that the release does not have.
func (f *findings) known(in []schedule.Property) []schedule.Property {
	younger := func(p schedule.Property) bool { return !f.options.knows(p.Name) }
	if !slices.ContainsFunc(in, younger) {
		return in
	}
	return slices.DeleteFunc(slices.Clone(in), younger)
}

// properties reads the image properties of a form that has them as text, by the
// types of ImageMetaProps. Names it does not know do not count in Nova.
func (f *findings) properties(s *Spec) []schedule.Property {
	var out []schedule.Property
	if adapter, ok := s.ImageProperties["vmware_adaptertype"]; ok {
		out = adapterProperties(adapter, s.ImageProperties)
	}
	out = append(out, cellProperties(s.ImageProperties)...)
	for _, key := range sortedKeys(s.ImageProperties) {
		value, name := s.ImageProperties[key], key
		if key == "hw_"+numaCPUs || key == "hw_"+numaMem {
			continue // Nova has them by node.
		}
		if current, ok := legacyProperties[key]; ok {
			if _, both := s.ImageProperties[current]; both {
				continue // The current name counts.
			}
			name = current
		}
		kind, ok := propertyKinds[name]
		if !ok || !f.options.knows(name) {
			continue
		}
		p := schedule.Property{Name: name, Text: value, Zero: value == ""}
		switch kind {
		case flagProperty:
			on := truthy(value)
			p.Text, p.Zero = "False", !on
			if on {
				p.Text = "True"
			}
		case numberProperty:
			n, ok := python.Int(value)
			if !ok {
				f.invalid(at(s.Path+".image.properties", key), "must be an integer, not %q", shorten(value))
				continue
			}
			p.Text, p.Zero = strconv.FormatInt(n, 10), n == 0
		}
		out = append(out, p)
	}
	return out
}

// adapterProperties is what the old name vmware_adaptertype stands for, unless the
// current names say otherwise.
func adapterProperties(adapter string, given map[string]string) (out []schedule.Property) {
	add := func(name, text string) {
		if _, ok := given[name]; !ok {
			out = append(out, schedule.Property{Name: name, Text: text, Zero: text == ""})
		}
	}
	if adapter == "ide" {
		add("hw_disk_bus", "ide")
		return out
	}
	add("hw_disk_bus", "scsi")
	add("hw_scsi_model", adapter)
	return out
}

// truthy is oslo.utils' bool_from_string.
func truthy(s string) bool {
	switch strings.ToLower(python.Strip(s)) {
	case "1", "t", "true", "on", "y", "yes":
		return true
	}
	return false
}

// imageNames checks the properties that hosts are compared with, and makes names canonical.
func (f *findings) imageNames(s *Spec, image *schedule.Image) {
	for i := range image.Properties {
		p := &image.Properties[i]
		path := at(s.Path+".image.properties", p.Name)
		var canonical func(string) (string, bool)
		switch p.Name {
		case "hw_architecture", "hw_emulation_architecture":
			canonical = schedule.Architecture
		case "img_hv_type":
			canonical = schedule.HypervisorType
		case "hw_vm_mode":
			canonical = schedule.VMMode
		case "img_hv_requested_version":
			if problem := schedule.VersionPredicate(p.Text); problem != "" {
				f.invalid(path, "must be bounds of versions like >=2.0,<3.0: %s", problem)
			}
			continue
		default:
			continue
		}
		name, ok := canonical(p.Text)
		if !ok {
			f.invalid(path, "%q is not known to Nova", shorten(p.Text))
			continue
		}
		p.Text = name
	}
}

// pythonText is Python's str of a decoded JSON value, and whether it is 0, false
// or empty.
func pythonText(v any) (text string, zero bool) {
	switch x := v.(type) {
	case nil:
		return "None", true
	case bool:
		if x {
			return "True", false
		}
		return "False", true
	case string:
		return x, x == ""
	case []any:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = pythonRepr(e)
		}
		return "[" + strings.Join(parts, ", ") + "]", len(x) == 0
	}
	if n, problem := integer(v); problem == "" {
		return strconv.FormatInt(n, 10), n == 0
	}
	return fmt.Sprint(v), false
}

func pythonRepr(v any) string {
	if s, ok := v.(string); ok {
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
	}
	text, _ := pythonText(v)
	return text
}
