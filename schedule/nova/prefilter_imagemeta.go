package nova

import "strings"

// imageMetadataTraits are the prefixes of the traits for the values of image properties.
var imageMetadataTraits = []struct{ property, prefix string }{
	{"hw_cdrom_bus", "COMPUTE_STORAGE_BUS"},
	{"hw_disk_bus", "COMPUTE_STORAGE_BUS"},
	{"hw_video_model", "COMPUTE_GRAPHICS_MODEL"},
	{"hw_vif_model", "COMPUTE_NET_VIF_MODEL"},
	{"hw_architecture", "HW_ARCH"},
	{"hw_emulation_architecture", "COMPUTE_ARCH"},
	{"hw_viommu_model", "COMPUTE_VIOMMU"},
}

// imageMetadata (transform_image_metadata): with image_metadata_prefilter, hosts must support the models that the
// image names. If any model gives a name that is not a trait, no trait is required, as in Nova. This is the case for
// every hw_viommu_model, whose traits have longer names (COMPUTE_VIOMMU_MODEL_…) than those that Nova makes.
func (p *prefiltering) imageMetadata() {
	if !p.options.ImageMetadata {
		return
	}
	required := map[string]string{}
	for _, m := range imageMetadataTraits {
		value, ok := p.image[m.property]
		if !ok {
			continue
		}
		trait := m.prefix + "_" + strings.ToUpper(strings.ReplaceAll(value, "-", "_"))
		if !modelTraits[trait] {
			return
		}
		required[trait] = at(p.spec.Path+".image.properties", m.property)
	}
	for trait, path := range required {
		p.requireRoot(path, trait)
	}
}

// readsImageMetadata reports whether imageMetadata reads an image property.
func readsImageMetadata(key string) bool {
	for _, m := range imageMetadataTraits {
		if key == m.property || legacyProperties[key] == m.property {
			return true
		}
	}
	return false
}
