package pebbleshard

import (
	"github.com/cockroachdb/pebble/v2"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// sizes are the bytes of the journal and of the tombstones, keys and rows, before Pebble compresses them.
type sizes struct{ journal, ended int64 }

// add counts a row.
func (z *sizes) add(key []byte, rowLen int) {
	switch key[0] {
	case entryKey:
		z.journal += int64(len(key) + rowLen)
	case tombstoneKey:
		z.ended += tombstoneSize(len(key), rowLen)
	}
}

// tombstoneSize is the size of a tombstone and, approximately, of its two index entries.
func tombstoneSize(keyLen, rowLen int) int64 { return int64(3*keyLen + rowLen + 50) }

// replace subtracts the existing tombstones that changes write again or make live again.
func (z *sizes) replace(ended map[string]*shard.Claim, changes []shard.Change) error {
	for _, ch := range changes {
		if ch.Claim == nil || ended[ch.Claim.ClaimID] == nil {
			continue
		}
		old := ended[ch.Claim.ClaimID]
		_, _, row, err := rowcodec.Row(nil, shard.Change{Claim: old})
		if err != nil {
			return err
		}
		z.ended -= tombstoneSize(1+len(old.ClaimID), len(row))
	}
	return nil
}

// countSizes counts the existing rows, at Open.
func (s *Store) countSizes() error {
	for _, prefix := range []byte{entryKey, tombstoneKey} {
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: after([]byte{prefix})})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			row := it.LazyValue()
			s.sizes.add(it.Key(), row.Len())
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	return nil
}
