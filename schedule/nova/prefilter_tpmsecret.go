package nova

import "strings"

// tpmSecretSecurity (tpm_secret_security_filter): a virtual TPM needs a host that supports the flavor's secret
// security; user if the flavor names none.
func (p *prefiltering) tpmSecretSecurity() {
	const key = "hw:tpm_secret_security"
	if version, _ := p.virtualTPM(); version == "" {
		return
	}
	security := p.spec.Flavor.ExtraSpecs[key]
	switch security {
	case "":
		security = "user"
	case "user", "host", "deployment":
	default:
		p.invalid(at(p.spec.Path+".flavor.extra_specs", key), "TPM secret security %q is not supported: user, host and deployment are", shorten(security))
		return
	}
	p.requireRoot(p.at("hw:tpm_version", "hw_tpm_version"), "COMPUTE_SECURITY_TPM_SECRET_SECURITY_"+strings.ToUpper(security))
}
