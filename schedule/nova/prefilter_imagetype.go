package nova

import "strings"

// imageTypeSupport (require_image_type_support): with
// query_placement_for_image_type_support, hosts must support the image's disk
// format, unless the instance boots from a volume. A format without a trait
// restricts nothing, as in Nova. Without an image or its format Nova raises an
// exception.
func (p *prefiltering) imageTypeSupport() {
	if !p.options.ImageTypeSupport || p.spec.BootFromVolume {
		return
	}
	path := p.spec.Path + ".image.disk_format"
	if p.spec.DiskFormat == "" {
		p.invalid(path, "is required, because query_placement_for_image_type_support is on")
		return
	}
	if trait := "COMPUTE_IMAGE_TYPE_" + strings.ToUpper(p.spec.DiskFormat); modelTraits[trait] {
		p.requireRoot(path, trait)
	}
}
