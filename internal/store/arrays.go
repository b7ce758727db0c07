package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// quickArray is the codec of an array type that writes a []T in one loop. The driver's own boxes every element and asks its codec for each;
// in a batch of runs, which is some thirty arrays, that took longer than all else that a worker does for the batch.
type quickArray[T any] struct {
	*pgtype.ArrayCodec

	size    func(element T) int                   // bytes of an element
	write   func(buffer []byte, element T) []byte // appends so many
	null    func(element T) bool                  // nil: there are no nulls
	scratch *scratch                              // of the connection
}

// PlanEncode implements pgtype.Codec. What is no []T the driver encodes.
func (q *quickArray[T]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, quick := value.([]T); quick && format == pgtype.BinaryFormatCode {
		return q
	}
	return q.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode implements pgtype.EncodePlan: how many dimensions, whether there are nulls, of what; then length and lower bound, and each
// element after its length.
func (q *quickArray[T]) Encode(value any, buffer []byte) ([]byte, error) {
	list, ok := value.([]T)
	if !ok {
		return nil, fmt.Errorf("encoding %T as an array of %T", value, list)
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
	for _, number := range []uint32{1, nulls, q.ElementType.OID, uint32(len(list)), 1} { //nolint:gosec // Postgres takes no array of more.
		buffer = binary.BigEndian.AppendUint32(buffer, number)
	}
	for _, element := range list {
		if q.null != nil && q.null(element) {
			buffer = binary.BigEndian.AppendUint32(buffer, 1<<32-1)
			continue
		}
		buffer = binary.BigEndian.AppendUint32(buffer, uint32(q.size(element))) //nolint:gosec // Likewise.
		buffer = q.write(buffer, element)
	}
	return buffer, nil
}

// The bytes before an array and before each of its elements.
const arrayHead, elementHead = 20, 4

// wireSize returns about how many bytes a statement with these arguments takes: exactly what its arrays do, and some for the rest.
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

// arraysOf is the arrays of a connection.
type arraysOf struct {
	types   *pgtype.Map
	scratch *scratch
}

// quickArrays makes a connection encode the arrays of batches quickly.
func quickArrays(m *pgtype.Map) {
	c := arraysOf{types: m, scratch: &scratch{most: maxArrays}}
	fixed(c, "uuid", 16, func(buffer []byte, id [16]byte) []byte { return append(buffer, id[:]...) })
	fixed(c, "timestamptz", 8, func(buffer []byte, at time.Time) []byte {
		return binary.BigEndian.AppendUint64(buffer, uint64(at.UnixMicro()-epoch)) //nolint:gosec // Two's complement is what it takes.
	})
	fixed(c, "int2", 2, func(buffer []byte, n int16) []byte { return binary.BigEndian.AppendUint16(buffer, uint16(n)) }) //nolint:gosec // Likewise.
	fixed(c, "int4", 4, func(buffer []byte, n int32) []byte { return binary.BigEndian.AppendUint32(buffer, uint32(n)) }) //nolint:gosec // Likewise.
	fixed(c, "int8", 8, func(buffer []byte, n int64) []byte { return binary.BigEndian.AppendUint64(buffer, uint64(n)) }) //nolint:gosec // Likewise.
	fixed(c, "tid", 6, func(buffer []byte, place pgtype.TID) []byte {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(buffer, place.BlockNumber), place.OffsetNumber)
	})
	fixed(c, "bool", 1, func(buffer []byte, is bool) []byte {
		if is {
			return append(buffer, 1)
		}
		return append(buffer, 0)
	})
	register(c, "text", quickArray[string]{
		size:  func(text string) int { return len(text) },
		write: func(buffer []byte, text string) []byte { return append(buffer, text...) },
	})
	register(c, "bytea", quickArray[[]byte]{
		size:  func(raw []byte) int { return len(raw) },
		write: func(buffer []byte, raw []byte) []byte { return append(buffer, raw...) },
		null:  func(raw []byte) bool { return raw == nil },
	})
}

// fixed registers an array whose elements all have the same size.
func fixed[T any](c arraysOf, element string, size int, write func(buffer []byte, element T) []byte) {
	register(c, element, quickArray[T]{size: func(T) int { return size }, write: write})
}

// register puts a codec in the place of the driver's for the arrays of an element type.
func register[T any](c arraysOf, element string, q quickArray[T]) {
	known, ok := c.types.TypeForName("_" + element)
	if !ok {
		panic("the driver knows no arrays of " + element)
	}
	q.scratch = c.scratch
	q.ArrayCodec = known.Codec.(*pgtype.ArrayCodec) //nolint:forcetypeassert // It has no other for arrays.
	c.types.RegisterType(&pgtype.Type{Name: known.Name, OID: known.OID, Codec: &q})
}
