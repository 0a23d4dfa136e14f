package schedule

import (
	"slices"
	"strings"
)

// The names Nova knows for architectures, hypervisors and modes
// (nova/objects/fields.py). Hosts advertise them, images ask for them.
var (
	architectures = []string{
		"aarch64", "alpha", "armv6", "armv7l", "armv7b", "cris", "i686", "ia64", "lm32", "loongarch64", "m68k",
		"microblaze", "microblazeel", "mips", "mipsel", "mips64", "mips64el", "openrisc", "parisc", "parisc64",
		"ppc", "ppcle", "ppc64", "ppc64le", "ppcemb", "riscv64", "s390", "s390x", "sh4", "sh4eb", "sparc", "sparc64",
		"unicore32", "x86_64", "xtensa", "xtensaeb",
	}
	hypervisors = []string{
		"baremetal", "bhyve", "docker", "fake", "hyperv", "ironic", "kqemu", "kvm", "lxc", "lxd", "openvz",
		"parallels", "vz", "phyp", "qemu", "test", "uml", "vbox", "vmware", "xen", "zvm", "prsm",
	}
	modes = []string{"hvm", "xen", "uml", "exe"}

	architectureAliases = map[string]string{
		"i386": "i686", "i486": "i686", "i586": "i686", "x86_32": "i686", "x86_32p": "i686", "amd64": "x86_64",
	}
	hypervisorAliases = map[string]string{"xapi": "xen"}
	modeAliases       = map[string]string{"pv": "xen", "hv": "hvm", "baremetal": "hvm"}
)

// Architecture gives the canonical name for a CPU architecture; false when there
// is none.
func Architecture(name string) (string, bool) {
	return canonical(name, architectures, architectureAliases)
}

// HypervisorType gives the canonical name for a kind of virtualization; false
// when there is none.
func HypervisorType(name string) (string, bool) {
	return canonical(name, hypervisors, hypervisorAliases)
}

// VMMode gives the canonical name for a guest's mode; false when there is none.
func VMMode(name string) (string, bool) { return canonical(name, modes, modeAliases) }

func canonical(name string, known []string, aliases map[string]string) (string, bool) {
	name = strings.ToLower(name)
	if alias, ok := aliases[name]; ok {
		name = alias
	}
	return name, slices.Contains(known, name)
}
