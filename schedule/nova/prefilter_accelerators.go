package nova

// accelerators (accelerators_filter): a flavor with a device profile needs a compute that supports accelerators.
// requested_resources asks for the devices themselves.
func (p *prefiltering) accelerators() {
	const key = "accel:device_profile"
	if p.spec.Flavor.ExtraSpecs[key] != "" {
		p.requireRoot(at(p.spec.Path+".flavor.extra_specs", key), "COMPUTE_ACCELERATORS")
	}
}
