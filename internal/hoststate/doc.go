// Package hoststate has what a cell asks of an agent's state besides its schema, as far as
// the state itself says it: cells refuse by it, and agents send nothing that would be refused.
package hoststate
