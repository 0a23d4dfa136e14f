package schedule

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"weak"

	"cellgate/internal/python"
)

// hostPlatform is what is parsed of HypervisorType, CPUInfo and SupportedInstances. Hosts with equal texts share one,
// because it is the largest part of Facts.
type hostPlatform struct {
	// key joins the texts.
	key       string
	cpuInfo   python.Value // absent if there is none, or it is not JSON
	supported [][3]string
	instances python.Value // supported, as Nova's list of lists
	// failed says why SupportedInstances cannot be read; "" if it can.
	failed string
}

// platforms are those in use, by key.
var platforms struct {
	sync.Mutex
	byKey map[string]weak.Pointer[hostPlatform]
}

// platformOf gives the platform of these texts; it parses them only if no host in use has the same.
func platformOf(t FactTexts) *hostPlatform {
	key := strings.Join([]string{t.HypervisorType, t.CPUInfo, t.SupportedInstances}, "\x00")
	platforms.Lock()
	defer platforms.Unlock()
	if p := platforms.byKey[key].Value(); p != nil {
		return p
	}
	p := &hostPlatform{key: key}
	if t.CPUInfo != "" {
		// CPUInfo that is not JSON is still a capability, as text.
		p.cpuInfo, _ = python.ParseJSON(t.CPUInfo)
	}
	p.readSupported(t.SupportedInstances)
	if platforms.byKey == nil {
		platforms.byKey = map[string]weak.Pointer[hostPlatform]{}
	}
	platforms.byKey[key] = weak.Make(p)
	runtime.AddCleanup(p, forgetPlatform, key)
	return p
}

// forgetPlatform removes a platform that is no longer used.
func forgetPlatform(key string) {
	platforms.Lock()
	defer platforms.Unlock()
	if platforms.byKey[key].Value() == nil { // else the texts were parsed again
		delete(platforms.byKey, key)
	}
}

// readSupported parses [[architecture, hypervisor, mode], …] and canonicalizes the names (nova/objects/hv_spec.py).
func (p *hostPlatform) readSupported(in string) {
	p.instances = python.Value{Kind: python.KindList}
	if in == "" {
		return
	}
	v, err := python.ParseJSON(in)
	if err != nil {
		err := python.NotJSON(err)
		p.failed = fmt.Sprintf("%s: %s", err.Class, err.Message)
		return
	}
	switch {
	case v.Kind == python.KindList:
	case v.Kind < python.KindText:
		p.failed = fmt.Sprintf("TypeError: '%s' object is not iterable", v.TypeName())
		return
	default: // Python iterates over the letters of a text, or the keys of an object.
		if v.Truth() {
			p.failed = "IndexError: each must be [architecture, hypervisor, mode]"
		}
		return
	}
	for i := range v.List {
		e := &v.List[i]
		if e.Kind != python.KindList || len(e.List) < 3 {
			p.failed = "IndexError: each must be [architecture, hypervisor, mode]"
			return
		}
		var s [3]string
		row := python.Value{Kind: python.KindList}
		for k, canonical := range []func(string) (string, bool){Architecture, HypervisorType, VMMode} {
			if e.List[k].Kind != python.KindText {
				p.failed = fmt.Sprintf("ValueError: %s is not a name", e.List[k].String())
				return
			}
			name, ok := canonical(e.List[k].Text)
			if !ok {
				p.failed = fmt.Sprintf("ValueError: %q is not known", e.List[k].Text)
				return
			}
			s[k] = name
			row.List = append(row.List, python.TextValue(name))
		}
		p.supported = append(p.supported, s)
		p.instances.List = append(p.instances.List, row)
	}
}
