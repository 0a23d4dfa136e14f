package nova

import (
	"slices"
	"strings"

	"cellgate/internal/osnames"
	"cellgate/schedule"
)

// prefiltering is the state of a request in Nova's request filters (nova/scheduler/request_filter.py), which restrict
// what Placement is asked for.
type prefiltering struct {
	*guest
	asked   *resourceRequest
	request *schedule.Request
}

// prefilters are Nova's, in its order. owner_nova_filter is not here, because it needs the versions of all computes;
// docs/reference/nova-placement.md describes the replacement. compute_status_filter and those that read aggregates
// leave conditions that the cells evaluate.
//
// since is the first release of a filter that asks for a trait which older computes do not report. Other filters need
// no since: before their release, their option is not set, or the key is not known.
var prefilters = []struct {
	run   func(*prefiltering)
	since int
}{
	{run: (*prefiltering).tenantAggregate},
	{run: (*prefiltering).imageTypeSupport},
	{run: (*prefiltering).computeStatus},
	{run: (*prefiltering).isolatedAggregates},
	{run: (*prefiltering).imageMetadata},
	{run: (*prefiltering).accelerators},
	{run: (*prefiltering).packedVirtqueue},
	{run: (*prefiltering).routedNetworks},
	{run: (*prefiltering).remoteManagedPorts, since: 25},
	{run: (*prefiltering).ephemeralEncryption},
	{run: (*prefiltering).virtioSound},
	{run: (*prefiltering).tpmSecretSecurity, since: 33},
}

// prefilter runs all request filters; on a rebuild none, because Placement is not asked then.
func (f *findings) prefilter(s *Spec, asked *resourceRequest, r *schedule.Request) {
	if s.Rebuild() {
		return
	}
	p := &prefiltering{guest: newGuest(f, s), asked: asked, request: r}
	for _, x := range prefilters {
		if f.options.has(x.since) {
			x.run(p)
		}
	}
}

// requireRoot requires a trait of the root provider.
func (p *prefiltering) requireRoot(path, trait string) {
	p.asked.root.add(p.asked.root.required, path, trait)
}

// tenantAggregate (require_tenant_aggregate): with limit_tenants_to_placement_aggregate, a project is placed in the
// aggregates reserved for it. Only the gateway can know whether any cell has such an aggregate.
func (p *prefiltering) tenantAggregate() {
	if p.options.LimitTenants {
		p.request.Tenant = p.spec.ProjectID
	}
}

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
	if trait := "COMPUTE_IMAGE_TYPE_" + strings.ToUpper(p.spec.DiskFormat); osnames.IsTrait(trait) {
		p.requireRoot(path, trait)
	}
}

// computeStatus (compute_status_filter) excludes hosts whose provider has the trait of a disabled compute, whatever
// the options.
func (p *prefiltering) computeStatus() {
	root := p.asked.root
	root.add(root.forbidden, p.spec.Path+".request_level_params.root_forbidden", "COMPUTE_STATUS_DISABLED")
}

// isolatedAggregates (isolate_aggregates): with enable_isolated_aggregate_filtering, hosts are excluded if an
// aggregate of theirs requires a trait that neither the flavor nor the image requires. As in Nova,
// request_level_params do not count. The typed form's required_traits are the flavor's, so they count.
func (p *prefiltering) isolatedAggregates() {
	if p.options.IsolateAggregates {
		traits := p.asked.requiredTraits()
		if !p.spec.Resolved {
			traits = append(traits, p.spec.RequiredTraits...)
			slices.Sort(traits)
			traits = slices.Compact(traits)
		}
		p.request.Isolated = &schedule.Isolation{Traits: traits}
	}
}

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
		if !osnames.IsTrait(trait) {
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

// accelerators (accelerators_filter): a flavor with a device profile needs a compute that supports accelerators.
// requested_resources asks for the devices themselves.
func (p *prefiltering) accelerators() {
	const key = "accel:device_profile"
	if p.spec.Flavor.ExtraSpecs[key] != "" {
		p.requireRoot(at(p.spec.Path+".flavor.extra_specs", key), "COMPUTE_ACCELERATORS")
	}
}

// packedVirtqueue (packed_virtqueue_filter): a packed ring needs a host that supports it.
func (p *prefiltering) packedVirtqueue() {
	const key = "hw:virtio_packed_ring"
	if p.flag(key) {
		p.requireRoot(p.at(key, property(key)), "COMPUTE_NET_VIRTIO_PACKED")
	}
}

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

// soundModels are all that Nova knows (nova/objects/fields.py, SoundModelType).
var soundModels = []string{"sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"}

// virtioSound (virtio_sound_filter): only the sound model virtio needs a host that supports it.
func (p *prefiltering) virtioSound() {
	const key = "hw:sound_model"
	if p.oneOf(key, soundModels...) == "virtio" {
		p.requireRoot(p.at(key, property(key)), "COMPUTE_SOUND_MODEL_VIRTIO")
	}
}

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
