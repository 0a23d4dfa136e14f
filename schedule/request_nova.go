package schedule

// NovaRequest is what only Nova's own filters and weighers read of a request. Its
// lists are in a canonical order, so that equal requests have equal shapes.
type NovaRequest struct {
	Flavor    Flavor
	Image     *Image
	Hints     []Hint
	ProjectID string
	// Retry are the hosts and nodes tried before; RetryFilter leaves them out.
	Retry []RetryHost
	// Rebuild: the instance stays where it is, so that only filters run that
	// Nova runs on a rebuild (RUN_ON_REBUILD).
	Rebuild bool
	// NUMA is the guest's topology; nil for none.
	NUMA *InstanceNUMA
	// PCI are the devices asked for.
	PCI []PCIRequest
	// Networks that NUMA cells are to be near; nil for none.
	Networks *NetworkNeeds
	// NeedThreads: dedicated CPUs under the thread policy require, by flavor or
	// image, so that a host whose topology shows no sibling threads will not do.
	NeedThreads bool
}

// Flavor is a request's flavor. Amounts are in the units of their names.
type Flavor struct {
	ID          string
	Name        string
	VCPUs       int64
	MemoryMB    int64
	RootGB      int64
	EphemeralGB int64
	SwapMB      int64
	// ExtraSpecs are looked at in this order; it shows only in which of several
	// errors is raised.
	ExtraSpecs []Pair
}

// Pair is a key with its value.
type Pair struct {
	Key   string
	Value string
}

// Image is the image a request boots from.
type Image struct {
	// ID is empty when the image has none: it is then in no list of images.
	ID         string
	Properties []Property
}

// Property is a property of an image that ImageMetaProps knows; Text is what
// Python's str makes of its value.
type Property struct {
	Name string
	Text string
	// Zero: the value is 0, false or empty, which a filter that compares
	// properties takes for not set.
	Zero bool
}

// property gives an image's property; nil when it has none.
func (n *NovaRequest) property(name string) *Property {
	if n.Image == nil {
		return nil
	}
	for i := range n.Image.Properties {
		if n.Image.Properties[i].Name == name {
			return &n.Image.Properties[i]
		}
	}
	return nil
}

// Hint is a scheduler hint with its values; one value is that value itself, any
// other number of them is a list.
type Hint struct {
	Name   string
	Values []string
}

// hint gives a hint's values; nil when there is none.
func (n *NovaRequest) hint(name string) []string {
	for i := range n.Hints {
		if n.Hints[i].Name == name {
			return n.Hints[i].Values
		}
	}
	return nil
}

// RetryHost is a service host and node. They compare exactly.
type RetryHost struct {
	Host string
	Node string
}

// nova is the request's part for Nova's own filters, empty when there is none.
func (r *Request) nova() *NovaRequest {
	if r.Nova == nil {
		return &NovaRequest{}
	}
	return r.Nova
}
