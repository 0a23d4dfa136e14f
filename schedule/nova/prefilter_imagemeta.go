package nova

import "strings"

// imageMetadataTraits begin the traits that stand for the values of an image
// property.
var imageMetadataTraits = []struct{ property, prefix string }{
	{"hw_cdrom_bus", "COMPUTE_STORAGE_BUS"},
	{"hw_disk_bus", "COMPUTE_STORAGE_BUS"},
	{"hw_video_model", "COMPUTE_GRAPHICS_MODEL"},
	{"hw_vif_model", "COMPUTE_NET_VIF_MODEL"},
	{"hw_architecture", "HW_ARCH"},
	{"hw_emulation_architecture", "COMPUTE_ARCH"},
	{"hw_viommu_model", "COMPUTE_VIOMMU"},
}

// imageMetadata (transform_image_metadata): with image_metadata_prefilter, hosts
// must support the models that the image names. When any of them makes a name
// that is no trait, none is asked for, as in Nova; so it is for every
// hw_viommu_model, whose traits have longer names (COMPUTE_VIOMMU_MODEL_…) than
// Nova makes.
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

// readsImageMetadata reports whether the key, of image properties, is one that
// imageMetadata reads.
func readsImageMetadata(key string) bool {
	for _, m := range imageMetadataTraits {
		if key == m.property || legacyProperties[key] == m.property {
			return true
		}
	}
	return false
}
