package pebbleshard

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	pebbleerrors "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// pebbleFormat is Pebble's version of its files. A newer one requires a new FormatVersion.
const pebbleFormat = pebble.FormatValueSeparation

// memTable is the default of Options.MemTable, and about the size of a log file. Pebble preallocates log files and
// keeps a few.
const memTable = 8 << 20

// blockCache is the size in bytes of the cache of table blocks. It holds the indexes and filters that each new claim
// needs to check the tombstones. With Pebble's default of 8 MiB, other reads and writes evict them.
const blockCache = 32 << 20

// l0Threshold is Pebble's L0CompactionThreshold: a compaction starts when L0 has half as many sublevels. Keys are
// random, so each compaction rewrites nearly every row. Reads of L0 are rare, and its Bloom filters answer most of
// them. With Pebble's default, 4, each byte of the log was written 5.6 times; with 16, 2.1 times.
const l0Threshold = 16

// leastRoom is how many bytes must be free for Open: what the log has is written to tables, and a new log begins. On a
// full disk Pebble would try that without end.
const leastRoom = 4 * memTable

// Open opens the shard in a directory, or creates one there. Its errors are for the operator who starts the process:
// they name the directory, contain every cause, and say what to do. They have no fault.Kind, because no caller of the
// API sees them.
func Open(dir string, opts Options) (*Store, error) { return open(vfs.Default, dir, opts) }

// OpenMem makes a shard in memory, which is lost when it is closed.
func OpenMem(opts Options) (*Store, error) { return open(vfs.NewMem(), "/shard", opts) }

// complete checks the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Cell == "" || strings.ContainsAny(o.Cell+o.CellUUID, "\r\n") {
		return o, fmt.Errorf("the name of a shard's cell is %q (uuid %q), must be one line and not empty", o.Cell, o.CellUUID)
	}
	if o.Clock == nil {
		o.Clock = steady()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}

func open(fs vfs.FS, path string, opts Options) (*Store, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	dir, err := holdDirectory(fs, path, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{
		opts: opts, dir: dir, rows: newCache(), sum: newRowSum(), lanes: map[uint64]*laneState{}, clock: clock{machine: opts.Clock},
	}
	s.ends.log, s.ends.dir = opts.Log, dir.path
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, dir.release())
	}
	return s, nil
}

// begin reads the rows, checks that nothing acknowledged is missing, and opens them for writing. The check comes
// first: if Pebble opens for writing, it deletes files that it does not know, but a refused shard must not change.
func (s *Store) begin() error {
	high, accepted, err := s.dir.readMark()
	if err != nil {
		return err
	}
	if err := s.dir.checkRoom(); err != nil {
		return err
	}
	if accepted {
		s.opts.Log.Warn("accept-loss is in MARK: acknowledged claims may be missing from what is served from now on", "directory", s.dir.path)
	}
	isNew := high.commit == 0
	if !isNew {
		err = s.loadReadOnly(high)
		if err == nil {
			if err := s.checkClock(); err != nil {
				return err
			}
		}
	}
	if err == nil {
		s.db, err = s.openPebble(func(o *pebble.Options) { o.FS, o.ErrorIfNotExists = markersLast{s.dir.fs}, !isNew || accepted })
	}
	if err != nil {
		return s.refusal(err, accepted)
	}
	if isNew {
		if err = s.load(); err == nil {
			err = s.checkRows(high)
			if err != nil && accepted {
				s.opts.Log.Warn("the operator accepts that acknowledged rows are lost", "directory", s.dir.path, "err", err)
				err = s.reseal()
			}
		}
	}
	if err == nil {
		s.mark, err = openMark(s.dir, highWater{commit: s.sum.commit, log: s.ends.logNumber.Load()}, &s.ends)
	}
	if err != nil {
		return errors.Join(s.refusal(err, accepted), s.db.Close())
	}
	s.syncer.start(&s.ends, func(number uint64) error {
		return s.mark.raise(highWater{commit: number, log: s.ends.logNumber.Load()})
	})
	return nil
}

// checkClock refuses a machine's clock that is too far ahead of store time.
func (s *Store) checkClock() error {
	last, now, most := s.clock.last, s.opts.Clock().UTC(), s.opts.MaxClockJump
	if most <= 0 || last.IsZero() || now.Sub(last) <= most {
		return nil
	}
	return fmt.Errorf("data directory %s was used last at %s, and the machine's clock says %s, %v later (more than max_clock_jump, %v): store time would never come back from a wrong clock; set the clock, or raise max_clock_jump for this start if the cell really stood still for so long",
		s.dir.path, last.Format(time.RFC3339), now.Format(time.RFC3339), now.Sub(last).Round(time.Second), most)
}

// reseal writes the checksum of the existing rows.
func (s *Store) reseal() error {
	b := s.db.NewBatch()
	if err := s.sum.seal(b, &s.sizes); err != nil {
		return err
	}
	return guarded(func() error { return s.db.Apply(b, pebble.Sync) })
}

// loadReadOnly reads the rows without writing to Pebble, and checks that nothing acknowledged is missing.
func (s *Store) loadReadOnly(high highWater) (err error) {
	s.db, err = s.openPebble(func(o *pebble.Options) { o.FS, o.ReadOnly = s.dir.fs, true })
	if err != nil {
		return err
	}
	if err = s.load(); err == nil {
		err = s.checkRows(high)
	}
	return errors.Join(err, s.db.Close())
}

// refusal is the error for rows that cannot be served. It names the file if that is known.
func (s *Store) refusal(err error, lossAccepted bool) error {
	if d := (*DamagedError)(nil); errors.As(err, &d) {
		d.LossAccepted = lossAccepted
		return d
	}
	if isOfMachine(err) {
		return fmt.Errorf("data directory %s cannot be opened: %w; nothing is damaged: mend that, and start again", s.dir.path, err)
	}
	var log uint64
	for _, detail := range pebbleerrors.GetAllDetails(err) {
		if _, scanErr := fmt.Sscanf(detail, "replaying wal %d,", &log); scanErr == nil {
			name, _ := s.dir.logFile(log)
			return &DamagedError{Dir: s.dir.path, File: s.dir.in(name), Err: err, LossAccepted: lossAccepted}
		}
	}
	return s.ends.orDamage(fmt.Errorf("data directory %s: its rows cannot be read: %w; %s", s.dir.path, err, remedy(s.dir.path, lossAccepted)))
}

// isOfMachine reports whether the machine lacks something, and the files are in order. Errors of Pebble may have kept
// only the text of the cause.
func isOfMachine(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES, syscall.EPERM, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	}, func(e syscall.Errno) bool { return strings.Contains(text, e.Error()) })
}

// openPebble opens Pebble with changed options. Fatal errors of Pebble are returned.
func (s *Store) openPebble(change func(*pebble.Options)) (db *pebble.DB, err error) {
	opts := pebbleOptions(&s.ends)
	opts.MemTableSize = cmp.Or(s.opts.MemTable, memTable)
	change(opts)
	err = guarded(func() error {
		db, err = pebble.Open(s.dir.in(pebbleDir), opts)
		return err
	})
	return db, err
}

// pebbleOptions are the options common to every opening.
func pebbleOptions(e *ends) *pebble.Options {
	opts := &pebble.Options{
		Logger:             logger{e},
		EventListener:      listener(e),
		FormatMajorVersion: pebbleFormat,
		CacheSize:          blockCache,

		L0CompactionThreshold: l0Threshold,
		L0StopWritesThreshold: 3 * l0Threshold,
	}
	// Claims are looked up among the tombstones, where they hardly ever are.
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// load reads every row except tombstones and the journal.
func (s *Store) load() error {
	last, err := s.number(timeKey)
	if err != nil {
		return err
	}
	if last > 0 {
		s.clock.last = time.Unix(0, int64(last)).UTC()
		s.clock.reserved = s.clock.last
	}
	if s.lastIncarnation, err = s.number(incarnationKey); err != nil {
		return err
	}
	return errors.Join(
		s.countDecisions(),
		s.countSizes(),
		loadRows(s, hostKey, rowcodec.Host, func(h *shard.Host) shard.Change { return shard.Change{Host: h} }),
		loadRows(s, usageKey, rowcodec.Usage, func(u *shard.Usage) shard.Change { return shard.Change{Usage: u} }),
		s.each(claimKey, func(b []byte) error {
			c, err := rowcodec.Claim(b)
			if err != nil {
				return err
			}
			return s.rows.load(c)
		}),
		loadRows(s, pinKey, rowcodec.Pin, func(p *shard.Pin) shard.Change { return shard.Change{Pin: p} }),
		loadRows(s, gateKey, rowcodec.Gate, func(g *shard.Gate) shard.Change { return shard.Change{Gate: g} }),
		loadRows(s, namespaceKey, rowcodec.Namespace, func(n *shard.Namespace) shard.Change { return shard.Change{Namespace: n} }),
		loadRows(s, adminKey, rowcodec.AdminState, func(a *shard.AdminState) shard.Change { return shard.Change{AdminState: a} }),
		loadRows(s, customNameKey, rowcodec.Name, func(n *shard.CustomName) shard.Change { return shard.Change{Name: n} }),
		s.each(laneKey, func(b []byte) error {
			m := &storagev1.Lane{}
			if err := proto.Unmarshal(b, m); err != nil {
				return err
			}
			s.lanes[m.Incarnation] = &laneState{
				id:    shard.LaneID{Replica: m.Replica, Incarnation: m.Incarnation},
				floor: m.Floor, last: m.Last,
			}
			return nil
		}),
	)
}

// loadRows caches the rows whose keys begin with a letter.
func loadRows[T any](s *Store, prefix byte, decode func([]byte) (*T, error), change func(*T) shard.Change) error {
	return s.each(prefix, func(b []byte) error {
		row, err := decode(b)
		if err == nil {
			s.rows.put(change(row))
		}
		return err
	})
}

// each visits the values whose keys begin with a letter.
func (s *Store) each(prefix byte, row func([]byte) error) error {
	low := []byte{prefix}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: after(low)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var b []byte
		if b, err = it.ValueAndErr(); err == nil {
			if isSummed(prefix) {
				s.sum.put(it.Key(), b)
			}
			if err = row(b); err != nil {
				err = fmt.Errorf("row %q: %w", it.Key(), err)
			}
		}
	}
	return errors.Join(err, it.Close())
}

// number reads a number of the store itself; 0 if it does not exist.
func (s *Store) number(key []byte) (uint64, error) {
	b, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, errors.Join(fmt.Errorf("row %q has %d bytes, not 8", key, len(b)), closer.Close())
	}
	return binary.BigEndian.Uint64(b), closer.Close()
}

func setTime(b *pebble.Batch, t time.Time) error {
	return b.Set(timeKey, binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())), nil)
}
