package claims

import (
	"crypto/sha256"
	"slices"
	"sync"

	"cellgate/gateway/cellclient"
)

// maxConfirmed bounds the requests in one generation of confirmedRequests. Two generations
// are kept, about 5 MiB.
const maxConfirmed = 32768

// confirmedRequests remember in which cells this gateway recently confirmed claims of a
// request. If such a request is sent again, it must not be claimed elsewhere while one of
// those cells does not answer. This is best effort: another gateway, or a restarted one, does
// not know the request. Safe for concurrent use.
type confirmedRequests struct {
	mu         sync.Mutex
	young, old map[requestKey][]*cellclient.Cell
}

// requestKey is a hash of a request's id and of all that it asks for.
type requestKey [16]byte

// confirmedKey gives the zero key for a request without an id.
func confirmedKey(requestID string, fingerprint []byte) requestKey {
	if requestID == "" {
		return requestKey{}
	}
	sum := sha256.Sum256(append([]byte(requestID+"\x00"), fingerprint...))
	return requestKey(sum[:])
}

func (r *confirmedRequests) put(key requestKey, in *cellclient.Cell) {
	if key == (requestKey{}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cells := r.find(key)
	if slices.Contains(cells, in) {
		return
	}
	if len(r.young) >= maxConfirmed || r.young == nil {
		r.old, r.young = r.young, map[requestKey][]*cellclient.Cell{}
	}
	r.young[key] = append(slices.Clip(cells), in)
}

// cellsOf gives the cells in which claims of a request were confirmed.
func (r *confirmedRequests) cellsOf(key requestKey) []*cellclient.Cell {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(key)
}

// find needs mu.
func (r *confirmedRequests) find(key requestKey) []*cellclient.Cell {
	if cells := r.young[key]; cells != nil {
		return cells
	}
	return r.old[key]
}
