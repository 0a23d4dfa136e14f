package sqlshard

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// listCodec encodes lists of texts, numbers and byte strings as binary arrays directly. For everything else it is
// pgx's codec, which looks up an encoder for each element: that was half the cost of sending a batch of claims.
type listCodec struct{ *pgtype.ArrayCodec }

// registerLists makes a connection's arrays listCodecs.
func registerLists(m *pgtype.Map) {
	for name, oids := range map[string][2]uint32{
		"_text":  {pgtype.TextArrayOID, pgtype.TextOID},
		"_int8":  {pgtype.Int8ArrayOID, pgtype.Int8OID},
		"_bytea": {pgtype.ByteaArrayOID, pgtype.ByteaOID},
	} {
		element, ok := m.TypeForOID(oids[1])
		if !ok {
			continue // pgx knows all three types; if not, its own codec stays
		}
		m.RegisterType(&pgtype.Type{Name: name, OID: oids[0], Codec: listCodec{&pgtype.ArrayCodec{ElementType: element}}})
	}
}

func (c listCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []string, []int64, [][]byte:
			return listPlan{c.ElementType.OID}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// listPlan encodes lists whose elements have the server type with this OID.
type listPlan struct{ element uint32 }

// Encode writes a one-dimensional array: its header, then each element after its length. A nil list, and a nil
// element, is NULL.
func (p listPlan) Encode(value any, buf []byte) ([]byte, error) {
	switch list := value.(type) {
	case []string:
		if list == nil {
			return nil, nil
		}
		size := 0
		for _, s := range list {
			size += 4 + len(s)
		}
		buf = p.header(buf, len(list), size, false)
		for _, s := range list {
			buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(s))), s...)
		}
	case []int64:
		if list == nil {
			return nil, nil
		}
		buf = p.header(buf, len(list), 12*len(list), false)
		for _, n := range list {
			buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(buf, 8), uint64(n))
		}
	case [][]byte:
		if list == nil {
			return nil, nil
		}
		size, nulls := 0, false
		for _, b := range list {
			size += 4 + len(b)
			nulls = nulls || b == nil
		}
		buf = p.header(buf, len(list), size, nulls)
		for _, b := range list {
			if b == nil {
				buf = binary.BigEndian.AppendUint32(buf, null)
				continue
			}
			buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(b))), b...)
		}
	}
	return buf, nil
}

// null is the length -1 of a NULL element.
const null = 1<<32 - 1

// header writes the header of n elements, which take size bytes.
func (p listPlan) header(buf []byte, n, size int, nulls bool) []byte {
	buf = slices.Grow(buf, 20+size)
	flags := uint32(0)
	if nulls {
		flags = 1
	}
	// One dimension with the lower bound 1, the usual one.
	for _, field := range [...]uint32{1, flags, p.element, uint32(n), 1} {
		buf = binary.BigEndian.AppendUint32(buf, field)
	}
	return buf
}
