package placement

import (
	"context"
	"errors"
	"fmt"

	pure "cellgate/schedule/placement"
)

// Backend stores the API's providers and allocations, and answers its searches. It is the cells' shards, or memory in
// tests. Names of classes and traits are canonical; uuids are lower case with dashes.
//
// An error is a *Refusal if the present state does not permit the request. It is a *fault.Error (CELL_UNAVAILABLE,
// OUTCOME_UNKNOWN, OVERLOADED) if a cell that must be asked does not answer. Lists, sums and searches are answered
// without such a cell, which the backend names with NoteSilentCell. An object that a request names by uuid or name is
// never answered in part.
type Backend interface {
	// Providers lists the providers that q asks for, with all their contents, ordered by uuid.
	Providers(ctx context.Context, q ProviderQuery) ([]*Provider, error)
	// Consumers lists those consumers of q that hold something, ordered by uuid, with all that each holds in every
	// cell.
	Consumers(ctx context.Context, q ConsumerQuery) ([]*Consumer, error)
	// Usages sums what consumers of a project hold.
	Usages(ctx context.Context, q UsageQuery) ([]Usage, error)
	// Candidates finds the ways to allocate what q asks for.
	Candidates(ctx context.Context, q CandidateQuery) (*Candidates, error)
	// Write does all of w in one transaction, or nothing. A write over several cells is refused (CrossCell), unless
	// it only has consumers. The cells' parts are then written one after the other: first those that take something,
	// then those that only give back.
	Write(ctx context.Context, w Write) error
	// Names lists the registered custom names of a kind, sorted. It does not list the standard names (IsStandard).
	Names(ctx context.Context, kind NameKind) ([]string, error)
	// HasName reports whether a custom name is registered. Most calls that name classes or traits use it, so it must
	// be cheap for a registered name. For a name that was registered through another gateway it is true at once.
	HasName(ctx context.Context, kind NameKind, name string) (bool, error)
	// PutName registers a custom name in every cell; created is false if it was registered before.
	PutName(ctx context.Context, kind NameKind, name string) (created bool, err error)
	// DeleteName removes a custom name. It is refused (ClassInUse, TraitInUse) while a provider has the name, and
	// (ClassNotFound, TraitNotFound) if the name is not registered.
	DeleteName(ctx context.Context, kind NameKind, name string) error
}

// NameKind is a registry of names; its value is the one that cells use.
type NameKind string

// The registries.
const (
	ClassName NameKind = "CLASS"
	TraitName NameKind = "TRAIT"
)

// Provider is a resource provider with its inventories, traits, aggregates and usage.
type Provider struct {
	UUID, Name string
	// RootUUID is its own for a root; ParentUUID is empty then.
	RootUUID, ParentUUID string
	// Cell is the name of the cell that has the tree.
	Cell string
	// Generation counts the writes to the provider, from 0: its inventories, traits, aggregates, and allocations
	// written through this API; not its name and parent. Claims of select_destinations do not count.
	Generation int64
	// Inventories by resource class.
	Inventories map[string]Inventory
	// Traits and Aggregates are sorted.
	Traits, Aggregates []string
	// Used is what consumers hold, by resource class; a class without usage may be absent.
	Used map[string]int64
}

// Inventory is a provider's inventory of one class, in Placement's JSON form. All fields are set; MinUnit and StepSize are
// at least 1.
type Inventory struct {
	Total           int64   `json:"total"`
	Reserved        int64   `json:"reserved"`
	MinUnit         int64   `json:"min_unit"`
	MaxUnit         int64   `json:"max_unit"`
	StepSize        int64   `json:"step_size"`
	AllocationRatio float64 `json:"allocation_ratio"`
}

// capacity is the greatest amount that consumers can hold together.
func (i Inventory) capacity() int64 { return pure.Capacity(i.Total, i.Reserved, i.AllocationRatio) }

// ProviderQuery narrows Providers. All given conditions must hold; a zero field is no condition.
type ProviderQuery struct {
	UUIDs []string
	Name  string
	// InTree is the uuid of any provider of the tree.
	InTree string
	// Traits and Aggregates that the provider itself must have or must not have.
	Traits, Aggregates NameFilter
	// Resources, by class: the provider has an inventory with room for this amount now.
	Resources map[string]int64
	// Cell, if given, is the cell of the caller's providers. For a provider that no answering cell has, its answer
	// decides even if other cells are silent.
	Cell string
}

// NameFilter asks for names: of every set in AnyOf at least one, and none of Forbidden.
type NameFilter = pure.Filter

// Allocations are amounts by provider uuid and resource class.
type Allocations map[string]map[string]int64

// Consumer holds resources.
type Consumer struct {
	UUID string
	// Generation counts the writes after which the consumer holds something; 1 after the first.
	Generation        int64
	ProjectID, UserID string
	// Type is upper case, or UnknownType.
	Type        string
	Allocations Allocations
}

const (
	// UnknownType is the type of consumers that were written without one.
	UnknownType = "unknown"
	// AllTypes asks for the usages of all types together.
	AllTypes = "all"
)

// ConsumerQuery names consumers, or a provider of which they hold something.
type ConsumerQuery struct {
	UUIDs    []string
	Provider string
	// Cell, if given, is the cell of the caller's consumers. For a consumer that no other cell has, its answer
	// decides even if other cells are silent.
	Cell string
}

// UsageQuery narrows Usages. UserID and Type may be empty.
type UsageQuery struct{ ProjectID, UserID, Type string }

// Usage is what consumers of one type hold.
type Usage struct {
	Type      string
	Consumers int64
	Resources map[string]int64
}

// Write is one transaction. Only the state after it must be valid: a reshape moves inventories and allocations
// together.
//
// Beside ProviderWrite.Raise, it raises generations by one, once for each provider: of every provider of which a
// written consumer gets allocations; and, if a consumer is left with nothing, of every provider that it held
// something of. It raises none for a consumer with MustExist.
type Write struct {
	Providers []ProviderWrite
	Consumers []ConsumerWrite
	// Cell is as ConsumerQuery.Cell, for the written consumers.
	Cell string
	// Adopt writes the decisions of another Placement: capacity, min_unit, max_unit and step_size are not checked,
	// and only Raise changes the generations of providers.
	Adopt bool
}

// ProviderWrite creates, changes or deletes a provider; nil fields change nothing.
type ProviderWrite struct {
	UUID string
	// Cell is the cell of a new root; empty for the backend's rule (the only cell, the compute node's, the default
	// one). For other providers it must be empty or the tree's.
	Cell string
	// Create makes the provider; otherwise it must exist. Delete removes it; it must have no allocations and no
	// children.
	Create, Delete bool
	// Name and Parent rename and reparent; a Parent of "" makes it a root.
	Name, Parent *string
	// Generation, if given, must equal the provider's. Raise is added to the provider's.
	Generation *int64
	Raise      int64
	// Inventories, Traits and Aggregates replace the present ones.
	Inventories        *map[string]Inventory
	Traits, Aggregates *[]string
}

// ConsumerWrite replaces what a consumer holds. Without Allocations, the consumer is deleted.
type ConsumerWrite struct {
	UUID string
	// AnyGeneration writes without a check of the generation (microversions before 1.28). Otherwise Generation must
	// be the consumer's, or nil for a consumer that must not exist.
	AnyGeneration bool
	Generation    *int64
	// Raise is added to the generation, beside the one that every write adds; at least 0.
	Raise int64
	// ProjectID, UserID and Type are kept if empty.
	ProjectID, UserID, Type string
	Allocations             Allocations
	// MustExist is DELETE /allocations: refused (ConsumerNotFound) if the consumer holds nothing.
	MustExist bool
}

// CandidateQuery is GET /allocation_candidates.
type CandidateQuery = pure.Query

// Candidates are the candidates found, and the providers that they name with all others of these providers' trees.
type Candidates struct {
	Requests  []Candidate
	Providers []*Provider
}

// Candidate is one possible allocation, with the providers of each group.
type Candidate struct {
	Allocations Allocations
	Mappings    map[string][]string
}

// Reason is why the present state does not permit a request; its value is the one that cells use.
type Reason string

// The reasons. The API has a status, an error code and a text for each.
const (
	ProviderNotFound       Reason = "PROVIDER_NOT_FOUND"
	ParentNotFound         Reason = "PARENT_NOT_FOUND"
	DuplicateProvider      Reason = "DUPLICATE_PROVIDER"
	ProviderGeneration     Reason = "PROVIDER_GENERATION"
	ProviderHasAllocations Reason = "PROVIDER_HAS_ALLOCATIONS"
	ProviderHasChildren    Reason = "PROVIDER_HAS_CHILDREN"
	// ReparentRefused: a loop, a parent in another tree before 1.37, or a tree of another cell.
	ReparentRefused Reason = "REPARENT_REFUSED"
	// InventoryInUse: a write would remove inventories of which consumers hold something; Class lists their classes,
	// separated by ", ".
	InventoryInUse Reason = "INVENTORY_IN_USE"
	// InventoryMissing: an allocation of a class of which the provider has no inventory.
	InventoryMissing Reason = "INVENTORY_MISSING"
	// InventoryRefused: an allocation that breaks min_unit, max_unit or step_size.
	InventoryRefused   Reason = "INVENTORY_REFUSED"
	CapacityExceeded   Reason = "CAPACITY_EXCEEDED"
	ConsumerGeneration Reason = "CONSUMER_GENERATION"
	ConsumerNotFound   Reason = "CONSUMER_NOT_FOUND"
	ClassNotFound      Reason = "CLASS_NOT_FOUND"
	TraitNotFound      Reason = "TRAIT_NOT_FOUND"
	ClassInUse         Reason = "CLASS_IN_USE"
	TraitInUse         Reason = "TRAIT_IN_USE"
	// AgentTree: an agent reports the host's providers; only the agent can change them.
	AgentTree Reason = "AGENT_TREE"
	// CrossCell: providers of several cells in one transaction. No cell gives this reason, nor the next one.
	CrossCell Reason = "CROSS_CELL"
	// CellNotFound: no cell is called Name; with an empty Name, nothing determines the cell of a new root.
	CellNotFound Reason = "CELL_NOT_FOUND"
)

// Refusal is the error of a request that the present state does not permit.
type Refusal struct {
	Reason Reason
	// Provider, Class, Consumer and Name are the objects that it is about; each may be empty.
	Provider, Class, Consumer, Name string
	// Detail is for people.
	Detail string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("refused: %s, provider %q, class %q, consumer %q, name %q: %s", r.Reason, r.Provider, r.Class, r.Consumer, r.Name, r.Detail)
}

// ReasonOf gives the reason of a refusal; "" for other errors and nil.
func ReasonOf(err error) Reason {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}
