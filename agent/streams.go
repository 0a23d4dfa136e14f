package agent

import "hash/fnv"

// streamOpened, streamAccepted and streamClosed record the state of a replica's stream.
func (h *Host) streamOpened(replica string) { h.setStream(replica, false) }

func (h *Host) streamAccepted(replica string) { h.setStream(replica, true) }

func (h *Host) setStream(replica string, accepted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams == nil {
		h.streams = map[string]bool{}
	}
	h.streams[replica] = accepted
}

func (h *Host) streamClosed(replica string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, replica)
}

// writes reports whether a replica is the one asked to write the host's states. It is chosen by
// rendezvous hashing of the host's uuid, among the replicas that have accepted a state, or among all
// connected ones while none has.
func (h *Host) writes(replica string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	best, most, proven := "", uint64(0), false
	for name, accepted := range h.streams {
		w := weight(h.state.GetHostUuid(), name)
		switch {
		case proven && !accepted:
			continue
		case best == "", accepted && !proven, w > most, w == most && name > best:
			best, most, proven = name, w, accepted
		}
	}
	return best == "" || best == replica
}

// weight is a host's weight for a replica in rendezvous hashing, the same for every agent incarnation.
func weight(host, replica string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(host)) // cannot fail
	_, _ = f.Write([]byte{0})
	_, _ = f.Write([]byte(replica))
	// The last bytes of FNV hardly affect the upper bits, so this mixes them like splitmix64.
	x := f.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
