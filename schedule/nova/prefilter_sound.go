package nova

// soundModels are all that Nova knows (nova/objects/fields.py, SoundModelType).
var soundModels = []string{"sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio"}

// virtioSound (virtio_sound_filter): of the sound models virtio alone needs a
// host that has it.
func (p *prefiltering) virtioSound() {
	const key = "hw:sound_model"
	if p.oneOf(key, soundModels...) == "virtio" {
		p.requireRoot(p.at(key, property(key)), "COMPUTE_SOUND_MODEL_VIRTIO")
	}
}
