package placement

import (
	"context"
	"fmt"
)

// Backend stores the API's providers and allocations, and answers its searches: the cells' shards, or, in tests,
// memory. Names of classes and traits are canonical, uuids are lower case with dashes.
//
// Errors are a *Refusal when the request cannot be done as things are, and a *fault.Error (CELL_UNAVAILABLE,
// OUTCOME_UNKNOWN, OVERLOADED) when a cell that has to be asked does not answer. Lists, sums and searches are answered
// without such a cell, which NoteSilentCell names; what a request names by uuid or name is never answered half.
type Backend interface {
	// Providers lists the providers that q asks for, ordered by uuid; all of each.
	Providers(ctx context.Context, q ProviderQuery) ([]*Provider, error)
	// Consumers lists the consumers that q asks for which hold something, ordered by uuid; all that each holds,
	// in every cell.
	Consumers(ctx context.Context, q ConsumerQuery) ([]*Consumer, error)
	// Usages sums what consumers of a project hold.
	Usages(ctx context.Context, q UsageQuery) ([]Usage, error)
	// Candidates finds the ways to allocate what q asks for.
	Candidates(ctx context.Context, q CandidateQuery) (*Candidates, error)
	// Write does all that w names in one transaction, or nothing. Writes of providers and consumers of several
	// cells are refused (CrossCell), but for consumers: the cells' parts are then written one after the other,
	// first those that take, then those that give back.
	Write(ctx context.Context, w Write) error
	// Names lists the registered custom names of a kind, sorted. It is asked at most calls that name classes or
	// traits, so it has to be cheap. The standard names are the API's (IsStandard).
	Names(ctx context.Context, kind NameKind) ([]string, error)
	// PutName registers a custom name in every cell; created is false when it was there.
	PutName(ctx context.Context, kind NameKind, name string) (created bool, err error)
	// DeleteName removes a custom name; refused (ClassInUse, TraitInUse) while a provider has it, and
	// (ClassNotFound, TraitNotFound) when it is not there.
	DeleteName(ctx context.Context, kind NameKind, name string) error
}

// NameKind is a registry of names.
type NameKind int

// The registries.
const (
	ClassName NameKind = iota + 1
	TraitName
)

// Provider is a resource provider with all that belongs to it.
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
	// Used is what consumers hold, by resource class; classes of which nothing is held may be absent.
	Used map[string]int64
}

// Inventory is what a provider has of a class. All fields are set; MinUnit and StepSize are at least 1.
type Inventory struct {
	Total, Reserved, MinUnit, MaxUnit, StepSize int64
	AllocationRatio                             float64
}

// ProviderQuery narrows Providers; zero fields do not. All given conditions must hold.
type ProviderQuery struct {
	UUIDs []string
	Name  string
	// InTree is the uuid of any provider of the tree.
	InTree string
	// Traits and Aggregates that the provider itself must have or must not have.
	Traits, Aggregates NameFilter
	// Resources, by class: the provider has an inventory in which this much fits now.
	Resources map[string]int64
}

// NameFilter asks for names: of every set in AnyOf at least one, and none of Forbidden.
type NameFilter struct {
	AnyOf     [][]string
	Forbidden []string
}

// Allocations are amounts by provider uuid and resource class.
type Allocations map[string]map[string]int64

// Consumer holds resources.
type Consumer struct {
	UUID string
	// Generation counts writes to the consumer that leave it something; 1 after the first.
	Generation        int64
	ProjectID, UserID string
	// Type is upper case; "unknown" for a consumer that was written without one.
	Type        string
	Allocations Allocations
}

// ConsumerQuery names consumers, or a provider of which they hold something.
type ConsumerQuery struct {
	UUIDs    []string
	Provider string
	// Cell, if given, is where the caller's consumers are: what it says of one that no other cell has is the answer,
	// even when a cell does not answer.
	Cell string
}

// UsageQuery narrows Usages. UserID and Type may be empty; Type "all" sums all types.
type UsageQuery struct{ ProjectID, UserID, Type string }

// Usage is what consumers of one type hold.
type Usage struct {
	Type      string
	Consumers int64
	Resources map[string]int64
}

// Write is one transaction, judged by the state it leaves: a reshape moves inventories and allocations together.
//
// Beside what ProviderWrite.Raise asks, it raises by one, once each, the generation of every provider that a written
// consumer is given allocations of, and, of a consumer that is left with nothing, of every provider that it held
// something of; but nothing for a consumer with MustExist.
type Write struct {
	Providers []ProviderWrite
	Consumers []ConsumerWrite
	// Cell is ConsumerQuery.Cell, for the consumers.
	Cell string
	// Adopt writes what another Placement decided: neither capacity nor min_unit, max_unit and step_size are judged,
	// and generations of providers are raised by Raise alone.
	Adopt bool
}

// ProviderWrite creates, changes or deletes a provider; nil fields leave what is there.
type ProviderWrite struct {
	UUID string
	// Cell is where a new root goes; empty for the backend's rule (host mapping, then the default cell). For
	// others it must be empty or the tree's.
	Cell string
	// Create makes it; else it must exist. Delete removes it, which must hold no allocations and have no children.
	Create, Delete bool
	// Name and Parent rename and reparent; a Parent of "" makes it a root.
	Name, Parent *string
	// Generation, if given, must be the provider's. Raise is added to it.
	Generation *int64
	Raise      int64
	// Inventories, Traits and Aggregates replace what there is.
	Inventories        *map[string]Inventory
	Traits, Aggregates *[]string
}

// ConsumerWrite replaces what a consumer holds; without Allocations it holds nothing afterwards, and is gone.
type ConsumerWrite struct {
	UUID string
	// AnyGeneration writes whatever the generation is (microversions before 1.28). Else Generation must be the
	// consumer's, nil for a consumer that must not exist.
	AnyGeneration bool
	Generation    *int64
	// Raise is added to the generation beside the one of every write; at least 0.
	Raise int64
	// ProjectID and UserID are kept when empty; so is Type.
	ProjectID, UserID, Type string
	Allocations             Allocations
	// MustExist is DELETE /allocations: refused (ConsumerNotFound) when there is nothing to delete.
	MustExist bool
}

// CandidateQuery is GET /allocation_candidates.
type CandidateQuery struct {
	// Groups by suffix; "" is the unnumbered one.
	Groups map[string]CandidateGroup
	// Isolate is group_policy=isolate.
	Isolate bool
	// SameSubtrees are sets of suffixes that must be of one subtree.
	SameSubtrees [][]string
	// RootTraits are required or forbidden on the root of the tree.
	RootTraits NameFilter
	// Limit is 0 for no limit.
	Limit int
	// Nested: candidates may use providers that are not roots (from microversion 1.29 on).
	Nested bool
}

// CandidateGroup is what one group of resources asks for. The unnumbered group may be spread over a tree and what
// shares with it; a suffixed one is of one provider.
type CandidateGroup struct {
	Resources          map[string]int64
	Traits, Aggregates NameFilter
	InTree             string
}

// Candidates are the ways found, and the providers that they name with the rest of these providers' trees.
type Candidates struct {
	Requests  []Candidate
	Providers []*Provider
}

// Candidate is one way: what to allocate, and which providers serve each group.
type Candidate struct {
	Allocations Allocations
	Mappings    map[string][]string
}

// Reason says why a request cannot be done as things are.
type Reason int

// The reasons. The API has a status, an error code and a text for each.
const (
	ProviderNotFound Reason = iota + 1
	ParentNotFound
	DuplicateProvider
	ProviderGeneration
	ProviderHasAllocations
	ProviderHasChildren
	// ReparentRefused: a loop, a parent in another tree before 1.37, or a tree of another cell.
	ReparentRefused
	// InventoryInUse: inventories go of which consumers hold something; Class has all of them, separated by ", ".
	InventoryInUse
	// InventoryMissing: an allocation of a class of which the provider has none.
	InventoryMissing
	// InventoryRefused: an allocation that breaks min_unit, max_unit or step_size.
	InventoryRefused
	CapacityExceeded
	ConsumerGeneration
	ConsumerNotFound
	ClassNotFound
	TraitNotFound
	ClassInUse
	TraitInUse
	// CrossCell: providers of several cells in one transaction.
	CrossCell
	// CellNotFound: no cell is called Name; without a Name nothing says where a new root goes.
	CellNotFound
	// AgentTree: an agent reports the host's providers; only it can change them.
	AgentTree
)

// Refusal is a request that cannot be done as things are.
type Refusal struct {
	Reason Reason
	// Provider, Class, Consumer, Name are what it is about, where it is about one.
	Provider, Class, Consumer, Name string
	// Detail is for people.
	Detail string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("refused: reason %d, provider %q, class %q, consumer %q, name %q: %s", r.Reason, r.Provider, r.Class, r.Consumer, r.Name, r.Detail)
}
