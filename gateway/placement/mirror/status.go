package mirror

import "maps"

// Status counts what a tap has done since its start.
type Status struct {
	// Writes counts forwarded writes that may have changed the source; Copied and CopyFailed count their copies, and
	// Pending those still to come.
	Writes, Copied, CopyFailed, Pending int
	LastError                           string `json:",omitempty"`
	// ReadsCompared counts the reads whose answers were compared, and ReadsDiffer, by path, those whose answers
	// differed. Reads that were too many, too long, or met writes each time, are in neither.
	ReadsCompared int
	ReadsDiffer   map[string]int
	// LastDiffering is the last read that differed; nil for none.
	LastDiffering *DifferingRead
	// Passes counts the passes that have compared everything.
	Passes int
}

// DifferingRead is a read to which both sides gave different answers.
type DifferingRead struct {
	Path, Microversion string
	Source, Target     string
}

// Status gives the counts.
func (t *Tap) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	s.Pending = t.queue.pending()
	s.ReadsDiffer = maps.Clone(t.status.ReadsDiffer)
	return s
}
