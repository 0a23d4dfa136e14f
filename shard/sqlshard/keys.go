package sqlshard

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"sync"

	"cellgate/shard"
)

// slots spreads ids that increase with time, so that not all writes go to the end of a table. A slot is one digit. A
// new number of slots needs a new schema.
const slots = 8

// keyOf gives the key of an id: its slot, then the id.
func keyOf(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // does not fail
	return string(rune('0'+h.Sum32()%slots)) + id
}

func keysOf(ids []string) []string {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = keyOf(id)
	}
	slices.Sort(keys)
	return keys
}

// idOf is the id of a key.
func idOf(key string) string { return key[1:] }

// slotOf is the slot of a key.
func slotOf(key string) string { return key[:1] }

// slotName is slot n of slots.
func slotName(n int) string { return string(rune('0' + n)) }

// listText is the column text of a list; "" for an empty one.
func listText(list []string) string {
	if len(list) == 0 {
		return ""
	}
	b, _ := json.Marshal(list) // a list of texts always encodes
	return string(b)
}

func textList(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, damaged("a list in a row cannot be read: %v", err)
	}
	return list, nil
}

// homes remembers the hosts of claims, so that a transaction that only names a claim can lock its host at once. An
// entry may be wrong: a transaction checks what it locked. When it is full, it forgets the older half.
type homes struct {
	mu       sync.Mutex
	now, old map[string]string
}

const maxHomes = 1 << 16

func (h *homes) hostOfClaim(claim string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if host, ok := h.now[claim]; ok {
		return host
	}
	return h.old[claim]
}

func (h *homes) note(changes []shard.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		if c.Claim == nil || c.Claim.HostUUID == "" {
			continue
		}
		if h.now == nil || len(h.now) >= maxHomes/2 {
			h.now, h.old = map[string]string{}, h.now
		}
		h.now[c.Claim.ClaimID] = c.Claim.HostUUID
	}
}
