package shard

// ReadSet names the rows that a batch of operations reads. A backend reads these rows, and those that they imply,
// into a View:
//
//   - every host named, with its usage and its AdminState; if it is in HostClaims, the
//     live claims on it; if it is also in Aligned, for a state that lists its
//     instances, the live claims that were transferred from the consumers of claims
//     on it that may end (Claim.GoesWithout);
//   - every claim named by id, with its host and usage;
//   - for each claim in Landings that is in a hard group, every live claim of its
//     instance (Claim.Instance), in its group, and of the group's Members: an
//     EXPIRED claim, also one that the batch itself expires, comes back only if
//     its group allows it, and a swapped one goes only where it does;
//   - for each claim in Landings that has hardware (Guest.HasHardware), every live claim
//     on the host it lands on: what they take is not free;
//   - every live claim of every consumer named, and every live claim that was
//     transferred from it, with its host and usage;
//   - every live claim in every group named, with its host and usage;
//   - every pin named;
//   - every namespace of the hosts in Namespaces;
//   - every custom name in Names;
//   - the gate, if Gate. One that is only read (not MovesGate) need not be kept from
//     moving until the commit: a state then counts as put before the move. It is read
//     after what keeps others from the rows of the hosts and claims.
type ReadSet struct {
	Hosts      []string
	HostClaims []string
	Aligned    []string
	Claims     []string
	Landings   []Landing
	Consumers  []string
	Groups     []string
	Pins       []string
	Namespaces []string
	Names      []NameRef
	Gate       bool
	MovesGate  bool
}

// Landing is an existing claim that may take room on a host; an empty HostUUID is its own host.
type Landing struct {
	ClaimID  string
	HostUUID string
}

// View is the rows that a batch reads, as of its transaction. Decide changes it: after Decide it is the state after
// the batch. Decide replaces rows and never changes them; it may change the maps and the slices of ids.
type View struct {
	Hosts map[string]*Host
	// Usages by host uuid; a host without one has nothing in use.
	Usages map[string]*Usage
	// Claims by claim_id, tombstones too.
	Claims map[string]*Claim
	// LiveByConsumer, LiveByGroup and LiveByHost are the claim_ids of live claims by consumer, group and host uuid.
	// They are complete for what the ReadSet names.
	LiveByConsumer map[string][]string
	LiveByGroup    map[string][]string
	LiveByHost     map[string][]string
	// TransferredFrom are the live claims that were transferred, by their first consumer.
	TransferredFrom map[string][]string
	Pins            map[string]*Pin
	// Namespaces by host uuid, then name; one without Facts is deleted.
	Namespaces map[string]map[string]*Namespace
	// AdminStates by host uuid.
	AdminStates map[string]*AdminState
	// Names are the custom names that exist.
	Names map[NameRef]bool
	// Gate is nil if there is none, or the ReadSet does not ask for it.
	Gate *Gate
}

// NewView makes an empty view with the capacity for a read set.
func NewView(f ReadSet) *View {
	hosts, claims := len(f.Hosts), max(len(f.Claims), len(f.Consumers))
	return &View{
		Hosts:           make(map[string]*Host, hosts),
		Usages:          make(map[string]*Usage, hosts),
		Claims:          make(map[string]*Claim, claims),
		LiveByConsumer:  make(map[string][]string, claims),
		LiveByGroup:     map[string][]string{},
		LiveByHost:      make(map[string][]string, hosts),
		TransferredFrom: map[string][]string{},
		Pins:            map[string]*Pin{},
		Namespaces:      map[string]map[string]*Namespace{},
		AdminStates:     map[string]*AdminState{},
		Names:           map[NameRef]bool{},
	}
}
