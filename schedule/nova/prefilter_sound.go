package nova

// soundModels are all that Nova knows (nova/objects/fields.py, SoundModelType).
var soundModels = []string{"sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"}

// virtioSound (virtio_sound_filter): only the sound model virtio needs a host that supports it.
func (p *prefiltering) virtioSound() {
	const key = "hw:sound_model"
	if p.oneOf(key, soundModels...) == "virtio" {
		p.requireRoot(p.at(key, property(key)), "COMPUTE_SOUND_MODEL_VIRTIO")
	}
}
