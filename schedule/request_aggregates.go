package schedule

// Isolation keeps a request out of aggregates that require a trait that it does not: those whose metadata has
// trait:NAME=required for a trait that is not in Traits.
type Isolation struct {
	// Traits that the request requires, sorted.
	Traits []string
}
