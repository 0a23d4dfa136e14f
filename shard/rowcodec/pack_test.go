package rowcodec_test

import (
	"bytes"
	"strings"
	"testing"

	"cellgate/shard/rowcodec"
)

func TestPackAndUnpack(t *testing.T) {
	for name, body := range map[string][]byte{
		"nothing":    {},
		"few":        []byte("abc"),
		"repetitive": []byte(strings.Repeat("00000001-0000-4000-8000-000000000001", 1000)),
	} {
		packed := rowcodec.Pack(body)
		if len(packed) > len(body)+1 {
			t.Errorf("%s: %d bytes packed are %d", name, len(body), len(packed))
		}
		got, err := rowcodec.Unpack(packed)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: unpacked %d bytes of %d, %v", name, len(got), len(body), err)
		}
	}
}

func TestDamagedBytesAreNotUnpacked(t *testing.T) {
	packed := rowcodec.Pack([]byte(strings.Repeat("host1 ", 100)))
	for name, damaged := range map[string][]byte{
		"empty":       {},
		"unknown way": {7, 1, 2, 3},
		"cut":         packed[:len(packed)-1],
	} {
		if _, err := rowcodec.Unpack(damaged); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
