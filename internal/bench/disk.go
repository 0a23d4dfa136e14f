package bench

import (
	"errors"
	"os"
	"slices"
	"time"
)

// SyncMedian measures how long the disk under dir takes to make 4 KiB durable: the median of n appends
// to a temporary file, each followed by fsync. No claim can be faster.
func SyncMedian(dir string, n int) (median time.Duration, err error) {
	f, err := os.CreateTemp(dir, "sync-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 4096)
	took := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
