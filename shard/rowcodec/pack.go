package rowcodec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The first of the packed bytes: how the rest is packed.
const (
	plain      = 0
	compressed = 1
)

// maxUnpacked bounds the bytes that damaged input can unpack to.
const maxUnpacked = 1 << 30

// packer and unpacker are made at the first use; they start no goroutines and are
// safe for concurrent use.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		// The options are constants, so this does not fail.
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err)
		}
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// Pack compresses bytes if that makes them fewer.
func Pack(body []byte) []byte {
	packed := packer().EncodeAll(body, append(make([]byte, 0, 1+len(body)/2), compressed))
	if len(packed) < 1+len(body) {
		return packed
	}
	return append([]byte{plain}, body...)
}

// Unpack is the inverse of Pack.
func Unpack(packed []byte) ([]byte, error) {
	if len(packed) == 0 {
		return nil, fmt.Errorf("packed bytes are empty")
	}
	switch packed[0] {
	case plain:
		return append([]byte(nil), packed[1:]...), nil
	case compressed:
		return unpacker().DecodeAll(packed[1:], nil)
	}
	return nil, fmt.Errorf("bytes are packed in way %d", packed[0])
}
