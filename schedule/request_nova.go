package schedule

import "cellgate/schedule/hardware"

// NovaRequest is what only Nova's own filters and weighers read of a request. Its lists are in canonical order, so
// that equal requests have equal shapes.
type NovaRequest struct {
	Flavor    Flavor
	Image     *Image
	Hints     []Hint
	ProjectID string
	// Retry are the hosts and nodes that were already tried; RetryFilter leaves them out.
	Retry []RetryHost
	// Rebuild: the instance stays on its host, so only the filters that Nova runs on a rebuild are run
	// (RUN_ON_REBUILD).
	Rebuild bool
	// Guest is what NUMATopologyFilter and PciPassthroughFilter read.
	hardware.Guest
	// NeedThreads: flavor or image ask for dedicated CPUs under the thread policy require. A host whose topology has
	// no sibling threads is then rejected.
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
	// ExtraSpecs are checked in this order; it only affects which of several errors is raised.
	ExtraSpecs []Pair
}

// Pair is a key with its value.
type Pair struct {
	Key   string
	Value string
}

// Image is the image a request boots from.
type Image struct {
	// ID is empty if the image has none; it is then in no list of images.
	ID         string
	Properties []Property
}

// Property is an image property that ImageMetaProps knows; Text is Python's str of its value.
type Property struct {
	Name string
	Text string
	// Zero: the value is 0, false or empty. A filter that compares properties treats it as not set.
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

// Hint is a scheduler hint with its values. A single value stands for itself; any other number of values is a list.
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

// RetryHost is a service host and node, compared exactly.
type RetryHost struct {
	Host string
	Node string
}

// nova is the request's NovaRequest, an empty one if it has none.
func (r *Request) nova() *NovaRequest {
	if r.Nova == nil {
		return &NovaRequest{}
	}
	return r.Nova
}
