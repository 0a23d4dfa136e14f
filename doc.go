// Package cellgate is a VM scheduling gateway: it partitions Nova's
// select_destinations across per-cell schedulers and merges their answers
// exactly. The program is cmd/cellgate; this package holds only the tests that
// keep the architecture's rules.
package cellgate
