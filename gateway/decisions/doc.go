// Package decisions keeps what was decided: a Recorder writes each decision into a cell after the answer, best effort,
// and reads decisions of all cells. Nobody waits for a write; what waits is bounded, and what is lost is counted.
package decisions
