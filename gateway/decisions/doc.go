// Package decisions records decisions: a Recorder writes each decision into a cell after the answer, best effort, and
// reads the decisions of all cells. Nobody waits for a write. The queues are bounded, and lost decisions are counted.
package decisions
