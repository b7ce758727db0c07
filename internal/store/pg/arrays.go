package pg

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// arrayCodec is the codec of an array type. It encodes a []T in one loop. The driver's codec boxes
// every element and looks up a codec for each. In a batch of runs, about thirty arrays, that cost
// more CPU than the rest of the worker's work for the batch.
//
// A codec belongs to one connection, because it uses the scratch buffer of that connection.
type arrayCodec[T any] struct {
	*pgtype.ArrayCodec

	// size returns the encoded bytes of an element.
	size func(element T) int
	// write appends the encoded element to the buffer: exactly size(element) bytes.
	write func(buffer []byte, element T) []byte
	// null reports whether an element is NULL. If it is nil, the array has no NULLs.
	null func(element T) bool
	// scratch is the encode buffer of the connection.
	scratch *scratch
}

// PlanEncode implements pgtype.Codec. Values of other types than []T fall back to the driver's
// codec.
func (q *arrayCodec[T]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, quick := value.([]T); quick && format == pgtype.BinaryFormatCode {
		return q
	}
	return q.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode implements pgtype.EncodePlan. The binary format is a header (dimensions, NULL flag,
// element OID, length, lower bound) and then each element after its length.
func (q *arrayCodec[T]) Encode(value any, buffer []byte) ([]byte, error) {
	list, ok := value.([]T)
	if !ok {
		return nil, fmt.Errorf("encode %T as an array of %T: the type does not match", value, list)
	}
	total, nulls := arrayHead, uint32(0)
	for _, element := range list {
		total += elementHead + q.size(element)
		if q.null != nil && q.null(element) {
			nulls = 1
		}
	}
	if total > cap(buffer)-len(buffer) {
		buffer = q.scratch.extend(buffer, total)
	}
	for _, number := range []uint32{1, nulls, q.ElementType.OID, uint32(len(list)), 1} {
		buffer = binary.BigEndian.AppendUint32(buffer, number)
	}
	for _, element := range list {
		if q.null != nil && q.null(element) {
			buffer = binary.BigEndian.AppendUint32(buffer, 1<<32-1)
			continue
		}
		buffer = binary.BigEndian.AppendUint32(buffer, uint32(q.size(element)))
		buffer = q.write(buffer, element)
	}
	return buffer, nil
}

// Sizes in bytes of the array header and of the length before each element.
const arrayHead, elementHead = 20, 4

// wireSize estimates the encoded bytes of a statement with these arguments. It is exact for arrays
// and a guess for scalars, because arrays make up nearly all of a batch.
func wireSize(args []any) int {
	const statement, scalar = 128, 32
	size := statement + scalar*len(args)
	for _, arg := range args {
		switch list := arg.(type) {
		case []bool:
			size += len(list) * (elementHead + 1)
		case []int16:
			size += len(list) * (elementHead + 2)
		case []int32:
			size += len(list) * (elementHead + 4)
		case []int64:
			size += len(list) * (elementHead + 8)
		case []time.Time:
			size += len(list) * (elementHead + 8)
		case []pgtype.TID:
			size += len(list) * (elementHead + 6)
		case [][16]byte:
			size += len(list) * (elementHead + 16)
		case []string:
			size += bytesOf(list)
		case [][]byte:
			size += bytesOf(list)
		}
	}
	return size
}

func bytesOf[T string | []byte](list []T) (size int) {
	for _, element := range list {
		size += elementHead + len(element)
	}
	return size
}

// arrayRegistry registers array codecs with one connection. All of them share its scratch buffer,
// because a connection encodes one statement at a time.
type arrayRegistry struct {
	types   *pgtype.Map
	scratch *scratch
}

// quickArrays registers the fast codecs for the array types that batches use.
func quickArrays(m *pgtype.Map) {
	c := arrayRegistry{types: m, scratch: &scratch{most: maxArrays}}
	fixed(c, "uuid", 16, func(buffer []byte, id [16]byte) []byte { return append(buffer, id[:]...) })
	fixed(c, "timestamptz", 8, func(buffer []byte, at time.Time) []byte {
		return binary.BigEndian.AppendUint64(buffer, uint64(at.UnixMicro()-epoch))
	})
	fixed(c, "int2", 2, func(buffer []byte, n int16) []byte { return binary.BigEndian.AppendUint16(buffer, uint16(n)) })
	fixed(c, "int4", 4, func(buffer []byte, n int32) []byte { return binary.BigEndian.AppendUint32(buffer, uint32(n)) })
	fixed(c, "int8", 8, func(buffer []byte, n int64) []byte { return binary.BigEndian.AppendUint64(buffer, uint64(n)) })
	fixed(c, "tid", 6, func(buffer []byte, ctid pgtype.TID) []byte {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(buffer, ctid.BlockNumber), ctid.OffsetNumber)
	})
	fixed(c, "bool", 1, func(buffer []byte, is bool) []byte {
		if is {
			return append(buffer, 1)
		}
		return append(buffer, 0)
	})
	register(c, "text", arrayCodec[string]{
		size:  func(text string) int { return len(text) },
		write: func(buffer []byte, text string) []byte { return append(buffer, text...) },
	})
	register(c, "bytea", arrayCodec[[]byte]{
		size:  func(raw []byte) int { return len(raw) },
		write: func(buffer []byte, raw []byte) []byte { return append(buffer, raw...) },
		null:  func(raw []byte) bool { return raw == nil },
	})
}

// fixed registers an array type of fixed-size elements.
func fixed[T any](c arrayRegistry, element string, size int, write func(buffer []byte, element T) []byte) {
	register(c, element, arrayCodec[T]{size: func(T) int { return size }, write: write})
}

// register replaces the driver's codec for the arrays of an element type.
func register[T any](c arrayRegistry, element string, q arrayCodec[T]) {
	known, ok := c.types.TypeForName("_" + element)
	if !ok {
		panic("the driver knows no arrays of " + element)
	}
	q.scratch = c.scratch
	q.ArrayCodec = known.Codec.(*pgtype.ArrayCodec) //nolint:forcetypeassert // All array types have this codec.
	c.types.RegisterType(&pgtype.Type{
		Name:  known.Name,
		OID:   known.OID,
		Codec: &q,
	})
}
