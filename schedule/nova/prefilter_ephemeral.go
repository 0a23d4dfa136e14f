package nova

import "strings"

// ephemeralEncryption (ephemeral_encryption_filter): encrypted ephemeral disks need a host that supports encryption,
// and the format if one is named. A format alone asks for nothing.
func (p *prefiltering) ephemeralEncryption() {
	const key, format = "hw:ephemeral_encryption", "hw:ephemeral_encryption_format"
	if !p.flag(key) {
		return
	}
	p.requireRoot(p.at(key, property(key)), "COMPUTE_EPHEMERAL_ENCRYPTION")
	if f := p.oneOf(format, "plain", "luks", "luksv2"); f != "" {
		p.requireRoot(p.at(format, property(format)), "COMPUTE_EPHEMERAL_ENCRYPTION_"+strings.ToUpper(f))
	}
}
