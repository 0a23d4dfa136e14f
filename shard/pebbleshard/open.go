package pebbleshard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// pebbleFormat is Pebble's own version of its files; a newer one is a new
// FormatVersion of ours.
const pebbleFormat = pebble.FormatValueSeparation

// memTable is the size of a memtable, in bytes, and about that of a log file,
// which Pebble allocates ahead and keeps a few of.
const memTable = 8 << 20

// blockCache holds what was read of tables, in bytes: the indexes and filters in which
// each new claim is looked for among the tombstones. Pebble has 8 MiB unless told, which
// what else is read and written pushes them out of.
const blockCache = 32 << 20

// Open opens the shard in a directory, or makes one there. Its errors are for who
// starts the process: they name the directory, have every cause in their text and
// say what to do; no caller of the API sees them, so they have no kind.
func Open(dir string, opts Options) (*Store, error) { return open(vfs.Default, dir, opts) }

// OpenMem makes a shard in memory: it is gone when it is closed.
func OpenMem(opts Options) (*Store, error) { return open(vfs.NewMem(), "/shard", opts) }

// Check gives the error that Open would, as far as files of something else,
// another format or cell, and another holder go, and changes nothing: for a
// process that opens several shards or none. It does not read rows.
func Check(dir string, opts Options) error {
	opts, err := opts.complete()
	if err != nil {
		return err
	}
	return checkDirectory(vfs.Default, dir, opts)
}

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
		opts: opts, dir: dir, ends: ends{log: opts.Log, dir: dir.path}, rows: newCache(), lanes: map[uint64]*laneState{},
		clock: clock{machine: opts.Clock},
	}
	if s.db, err = openPebble(s); err != nil {
		err = s.ends.orDamage(fmt.Errorf("data directory %s: its rows cannot be opened: %w; bring back a copy of the directory, or give a new one and lose its claims", dir.path, err))
		return nil, errors.Join(err, dir.release())
	}
	if err := s.load(); err != nil {
		err = s.ends.orDamage(fmt.Errorf("data directory %s has rows that cannot be read: %w; bring back a copy of the directory, or give a new one and lose its claims", dir.path, err))
		return nil, errors.Join(err, s.db.Close(), dir.release())
	}
	s.syncer.start()
	return s, nil
}

func openPebble(s *Store) (db *pebble.DB, err error) {
	opts := pebbleOptions(&s.ends)
	opts.FS = s.dir.fs
	return openGuarded(s.dir.in(pebbleDir), opts)
}

// pebbleOptions are those of every opening.
func pebbleOptions(e *ends) *pebble.Options {
	opts := &pebble.Options{
		Logger:             logger{e},
		EventListener:      listener(e),
		FormatMajorVersion: pebbleFormat,
		MemTableSize:       memTable,
		CacheSize:          blockCache,
	}
	// Claims are looked for among the tombstones, where they hardly ever are.
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return opts
}

// openGuarded opens Pebble; what it cannot go on from is an error.
func openGuarded(path string, opts *pebble.Options) (db *pebble.DB, err error) {
	err = guarded(func() error {
		db, err = pebble.Open(path, opts)
		return err
	})
	return db, err
}

// load reads every row but tombstones and the journal.
func (s *Store) load() error {
	last, err := s.number(timeKey)
	if err != nil {
		return err
	}
	if last > 0 {
		s.clock.last = time.Unix(0, int64(last)).UTC()
		s.clock.reserved = s.clock.last
	}
	if s.lastLife, err = s.number(lifeKey); err != nil {
		return err
	}
	return errors.Join(
		s.countDecisions(),
		s.each(hostKey, func(b []byte) error {
			h, err := rowcodec.Host(b)
			if err == nil {
				s.rows.put(shard.Change{Host: h})
			}
			return err
		}),
		s.each(usageKey, func(b []byte) error {
			u, err := rowcodec.Usage(b)
			if err == nil {
				s.rows.put(shard.Change{Usage: u})
			}
			return err
		}),
		s.each(claimKey, func(b []byte) error {
			c, err := rowcodec.Claim(b)
			if err != nil {
				return err
			}
			return s.rows.load(c)
		}),
		s.each(pinKey, func(b []byte) error {
			p, err := rowcodec.Pin(b)
			if err == nil {
				s.rows.put(shard.Change{Pin: p})
			}
			return err
		}),
		s.each(gateKey, func(b []byte) error {
			g, err := rowcodec.Gate(b)
			if err == nil {
				s.rows.put(shard.Change{Gate: g})
			}
			return err
		}),
		s.each(namespaceKey, func(b []byte) error {
			n, err := rowcodec.Namespace(b)
			if err == nil {
				s.rows.put(shard.Change{Namespace: n})
			}
			return err
		}),
		s.each(adminKey, func(b []byte) error {
			a, err := rowcodec.AdminState(b)
			if err == nil {
				s.rows.put(shard.Change{AdminState: a})
			}
			return err
		}),
		s.each(laneKey, func(b []byte) error {
			m := &storagev1.Lane{}
			if err := proto.Unmarshal(b, m); err != nil {
				return err
			}
			s.lanes[m.Life] = &laneState{
				id:    shard.LaneID{Replica: m.Replica, Life: m.Life},
				floor: m.Floor, last: m.Last,
			}
			return nil
		}),
	)
}

// each reads the values under a letter.
func (s *Store) each(prefix byte, row func([]byte) error) error {
	low := []byte{prefix}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: low, UpperBound: after(low)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var b []byte
		if b, err = it.ValueAndErr(); err == nil {
			if err = row(b); err != nil {
				err = fmt.Errorf("row %q: %w", it.Key(), err)
			}
		}
	}
	return errors.Join(err, it.Close())
}

// number reads a number of the store's own; 0 when it is not there.
func (s *Store) number(key []byte) (uint64, error) {
	b, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		err = fmt.Errorf("row %q has %d bytes, not 8", key, len(b))
	} else {
		return binary.BigEndian.Uint64(b), closer.Close()
	}
	return 0, errors.Join(err, closer.Close())
}

func setTime(b *pebble.Batch, t time.Time) error {
	return b.Set(timeKey, binary.BigEndian.AppendUint64(nil, uint64(t.UnixNano())), nil)
}
