package sqlshard

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// Lists are encoded as by pgx's own codec, byte by byte.
func TestListsAreArraysOfTheWire(t *testing.T) {
	ours, theirs := pgtype.NewMap(), pgtype.NewMap()
	registerLists(ours)
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string { return string(make([]byte, rng.IntN(5))) + "ä€x"[:rng.IntN(3)] }
	for range 500 {
		n := rng.IntN(5)
		texts, numbers, bodies := make([]string, n), make([]int64, n), make([][]byte, n)
		for i := range n {
			texts[i], numbers[i] = text(), int64(rng.Uint64())
			if rng.IntN(3) > 0 {
				bodies[i] = []byte(text())
			}
		}
		for oid, list := range map[uint32]any{
			pgtype.TextArrayOID: texts, pgtype.Int8ArrayOID: numbers, pgtype.ByteaArrayOID: bodies,
		} {
			want, err := theirs.Encode(oid, pgtype.BinaryFormatCode, list, []byte("before"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := ours.Encode(oid, pgtype.BinaryFormatCode, list, []byte("before"))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v is sent as %x (%v), pgx sends %x", list, got, err, want)
			}
		}
	}
	for oid, list := range map[uint32]any{
		pgtype.TextArrayOID: []string(nil), pgtype.Int8ArrayOID: []int64(nil), pgtype.ByteaArrayOID: [][]byte(nil),
	} {
		if got, err := ours.Encode(oid, pgtype.BinaryFormatCode, list, nil); err != nil || got != nil {
			t.Errorf("a nil %T is sent as %x, %v; want NULL", list, got, err)
		}
	}
}

// pgx's codec still decodes all lists, and encodes lists of other types.
func TestOtherListsArePgxs(t *testing.T) {
	m := pgtype.NewMap()
	registerLists(m)
	sent, err := m.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, []string{"a", "", "b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var back []string
	if err := m.Scan(pgtype.TextArrayOID, pgtype.BinaryFormatCode, sent, &back); err != nil || len(back) != 3 || back[2] != "b" {
		t.Errorf("%v, %v", back, err)
	}
	if _, err := m.Encode(pgtype.Int8ArrayOID, pgtype.BinaryFormatCode, []int32{1, 2}, nil); err != nil {
		t.Error(err)
	}
}
