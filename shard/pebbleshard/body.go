package pebbleshard

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"cellgate/shard"
)

// How a body is packed: its first byte.
const (
	bodyPlain = 0
	bodyZstd  = 1
)

// packer and unpacker are made at the first use; they start no goroutines and are
// safe for concurrent use.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		// Options of the package's own do not fail.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err)
		}
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(shard.MaxDecisionBody))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// packBody compresses a body where that makes it less.
func packBody(body []byte) []byte {
	packed := packer().EncodeAll(body, append(make([]byte, 0, 1+len(body)/2), bodyZstd))
	if len(packed) < 1+len(body) {
		return packed
	}
	return append([]byte{bodyPlain}, body...)
}

func unpackBody(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, fmt.Errorf("a decision's body is empty")
	}
	switch packed[0] {
	case bodyPlain:
		return append([]byte(nil), packed[1:]...), nil
	case bodyZstd:
		return unpacker().DecodeAll(packed[1:], nil)
	}
	return nil, fmt.Errorf("a decision's body is packed in way %d", packed[0])
}
