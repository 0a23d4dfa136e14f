package nova

// packedVirtqueue (packed_virtqueue_filter): a packed ring needs a host that supports it.
func (p *prefiltering) packedVirtqueue() {
	const key = "hw:virtio_packed_ring"
	if p.flag(key) {
		p.requireRoot(p.at(key, property(key)), "COMPUTE_NET_VIRTIO_PACKED")
	}
}
