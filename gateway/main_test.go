package gateway

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"cellgate/shard/rowcodec"
)

func TestMain(m *testing.M) {
	// The codec of decisions is made at its first use. One that a synctest bubble made is of no use to another bubble.
	if _, err := rowcodec.Unpack(rowcodec.Pack(bytes.Repeat([]byte("text"), 100))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
