package nova

import (
	"cmp"
	"strings"
)

const (
	tpm12  = "1.2"
	tpm20  = "2.0"
	tpmTIS = "tpm-tis"
	tpmCRB = "tpm-crb"
)

// virtualTPM is the version and model of the virtual TPM; empty for none (get_vtpm_constraint).
func (g *guest) virtualTPM() (version, model string) {
	version = g.oneOf("hw:tpm_version", tpm12, tpm20)
	if version == "" {
		return "", ""
	}
	if model = g.oneOf("hw:tpm_model", tpmTIS, tpmCRB); model == tpmCRB && version != tpm20 {
		g.invalid(g.at("hw:tpm_model", "hw_tpm_model"), "is tpm-crb, which needs TPM version %s", tpm20)
	}
	return version, cmp.Or(model, tpmTIS)
}

// tpm requires support of the virtual TPM's version and model.
func (r *resourceRequest) tpm(g *guest) {
	version, model := g.virtualTPM()
	if version == "" {
		return
	}
	path := g.at("hw:tpm_version", "hw_tpm_version")
	r.require(path, map[string]string{tpm12: "COMPUTE_SECURITY_TPM_1_2", tpm20: "COMPUTE_SECURITY_TPM_2_0"}[version])
	if g.options.has(releaseTPMModel) {
		r.require(path, map[string]string{tpmTIS: "COMPUTE_SECURITY_TPM_TIS", tpmCRB: "COMPUTE_SECURITY_TPM_CRB"}[model])
	}
}

// require adds a required trait to the unsuffixed group.
func (r *resourceRequest) require(path, trait string) {
	t := r.group("")
	t.add(t.required, path, trait)
}

// secureBoot requires a host that supports it. The image property is older than this requirement in Nova.
func (r *resourceRequest) secureBoot(g *guest) {
	if !g.options.has(releaseSecureBoot) {
		return
	}
	if g.oneOf("os:secure_boot", "required", "disabled", "optional") == "required" {
		r.require(g.at("os:secure_boot", "os_secure_boot"), "COMPUTE_SECURITY_UEFI_SECURE_BOOT")
	}
}

// statelessFirmware requires a host that supports it. Only images ask for it, and they must boot with UEFI.
func (r *resourceRequest) statelessFirmware(g *guest) {
	if !truthy(g.image["hw_firmware_stateless"]) {
		return
	}
	path := at(g.spec.Path+".image.properties", "hw_firmware_stateless")
	if g.image["hw_firmware_type"] != "uefi" {
		r.invalid(path, "needs hw_firmware_type uefi")
	}
	r.require(path, "COMPUTE_SECURITY_STATELESS_FIRMWARE")
}

// memoryEncryption takes one of the slots of a host that encrypts guests' memory with SEV; other models are refused
// (support.go).
func (r *resourceRequest) memoryEncryption(g *guest) {
	const key = "hw:mem_encryption"
	if !g.flag(key) {
		return
	}
	if g.image["hw_firmware_type"] != "uefi" {
		r.invalid(g.at(key, property(key)), "needs an image with hw_firmware_type uefi")
	}
	if m := g.image["hw_machine_type"]; m != "" && !strings.Contains(m, "q35") {
		r.invalid(g.at(key, property(key)), "needs a q35 machine type, the image has %s", shorten(m))
	}
	r.group("").resources["MEM_ENCRYPTION_CONTEXT"] = 1
	if g.options.has(releaseSEV) {
		r.require(g.at(key, property(key)), "HW_CPU_X86_AMD_SEV")
	}
}
