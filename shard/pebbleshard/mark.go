package pebbleshard

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MARK is the high-water mark: the number of the newest acknowledged commit. It is kept outside of Pebble's files, so
// that Open detects if they lost a commit.
//
// A commit is written to MARK after its sync and before its acknowledgement, so MARK is never ahead of the log, even
// after a crash. The write is then in the kernel: killing the process does not lose it. MARK itself is synced beside
// the commits: at once after a pause, and every markPause under load. One case is not detected: power fails within
// that time after an acknowledgement, and a disk that lied about the log's sync loses exactly the commits of that
// time.
//
// The file has three slots. While one is being synced, the second is written, and the third still has what was synced
// before. So a torn write costs only the newest mark.
const (
	markFile  = "MARK"
	markSlots = 3
	// slotSize keeps slots in separate disk blocks.
	slotSize = 4096
	// markPause is the time between two syncs of MARK.
	markPause = 10 * time.Millisecond
	// acceptLoss is the text that an operator writes to MARK to go on with what is left.
	acceptLoss = "accept-loss"
)

// highWater is the content of a slot of MARK.
type highWater struct {
	// commit is the number of the newest acknowledged commit; 0 for none.
	commit uint64
	// log is the number of Pebble's log file at that time.
	log uint64
}

func (h highWater) append(b []byte) []byte {
	start := len(b)
	b = fmt.Appendf(b, "commit %020d log %020d ", h.commit, h.log)
	return fmt.Appendf(b, "crc %08x\n", crc32.ChecksumIEEE(b[start:]))
}

// parseSlot parses a slot; false if it is not complete.
func parseSlot(b []byte) (h highWater, ok bool) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	var crc uint32
	if _, err := fmt.Sscanf(string(line), "commit %d log %d crc %x", &h.commit, &h.log, &crc); err != nil {
		return highWater{}, false
	}
	// Only text that append writes.
	return h, bytes.Equal(h.append(nil), append(line, '\n'))
}

// markText is the text of a whole MARK file.
func markText(h highWater) string {
	text := make([]byte, markSlots*slotSize)
	for i := range markSlots {
		copy(text[i*slotSize:], h.append(nil))
	}
	return string(text)
}

// readMark gives the high-water mark, or accepted if the operator accepts a loss.
func (d *directory) readMark() (h highWater, accepted bool, err error) {
	text, err := d.read(markFile)
	if err != nil && isOfMachine(err) {
		return h, false, fmt.Errorf("data directory %s: %s cannot be read: %w", d.path, markFile, err)
	}
	if err != nil {
		return h, false, d.lost(markFile, fmt.Errorf("it cannot be read, so nothing shows that the rows are whole: %w", err))
	}
	if strings.TrimSpace(text) == acceptLoss {
		return h, true, nil
	}
	found := false
	for i := range markSlots {
		from := min(i*slotSize, len(text))
		if slot, ok := parseSlot([]byte(text[from:min(from+slotSize, len(text))])); ok {
			found = true
			if slot.commit >= h.commit {
				h = slot
			}
		}
	}
	if !found {
		return h, false, d.lost(markFile, errors.New("no high-water mark in it is whole"))
	}
	return h, false, nil
}

// lost is the error for a file that lacks acknowledged commits, or whose loss makes it impossible to know whether
// some are missing.
func (d *directory) lost(file string, err error) error {
	return &DamagedError{Dir: d.path, File: d.in(file), Err: err}
}

// mark writes MARK.
type mark struct {
	file vfs.File
	ends *ends

	mu sync.Mutex
	// slot is the slot to write; the one before it is synced or being synced.
	slot int
	// written: something was written and not synced yet.
	written bool
	line    []byte

	wake   chan struct{}
	ending chan struct{}
	ended  chan struct{}
}

// openMark replaces MARK by one with h in every slot, and opens it for writing.
func openMark(d *directory, h highWater, ends *ends) (*mark, error) {
	err := d.write(markFile, markText(h))
	var f vfs.File
	if err == nil {
		f, err = d.fs.OpenReadWrite(d.in(markFile), vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %s cannot be written: %w", d.path, markFile, err)
	}
	m := &mark{file: f, ends: ends, wake: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{})}
	go m.run()
	return m, nil
}

// raise writes a commit that is on disk. It must be called in the order of commits.
func (m *mark) raise(h highWater) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.line = h.append(m.line[:0])
	if _, err := m.file.WriteAt(m.line, int64(m.slot)*slotSize); err != nil {
		return fmt.Errorf("%s cannot be written: %w", markFile, err)
	}
	m.written = true
	select {
	case m.wake <- struct{}{}:
	default:
	}
	return nil
}

// run syncs MARK after a write, but not sooner than markPause after the last sync.
func (m *mark) run() {
	defer close(m.ended)
	for {
		select {
		case <-m.wake:
		case <-m.ending:
			return
		}
		if err := m.sync(); err != nil {
			m.ends.set(err, false)
			return
		}
		select {
		case <-time.After(markPause):
		case <-m.ending:
			return
		}
	}
}

func (m *mark) sync() error {
	m.mu.Lock()
	due := m.written
	if due {
		m.slot, m.written = (m.slot+1)%markSlots, false
	}
	m.mu.Unlock()
	if !due {
		return nil
	}
	if err := m.file.SyncData(); err != nil {
		return fmt.Errorf("%s cannot be synced: %w", markFile, err)
	}
	return nil
}

// close syncs the last write. raise must not be called afterwards.
func (m *mark) close() error {
	close(m.ending)
	<-m.ended
	return errors.Join(m.sync(), m.file.Close())
}

// hasAcknowledged reports whether a directory without FORMAT has a MARK of an existing shard, not of one that was
// being created.
func (d *directory) hasAcknowledged() bool {
	h, accepted, err := d.readMark()
	return !errors.Is(err, os.ErrNotExist) && (err != nil || accepted || h.commit > 0)
}
