package store

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// The driver begins each statement, and each flush, with a buffer of some bytes, lets it grow to a batch, and throws it away. The memory was new
// each time: it had to be cleared, and collected. So a connection keeps two buffers of its own.
const (
	maxArrays = 256 << 10 // of the arrays of one statement: twice what a full batch of ordinary runs takes
	maxOutbox = 512 << 10 // of what is sent at a time: as much as such a batch takes
)

// scratch is memory that a connection keeps, for one thing after the other.
type scratch struct {
	buffer []byte
	most   int // bytes that are kept; a batch of long answers may need far more
}

// extend returns a buffer with what full holds and room for more bytes. It is good until extend is called again.
func (s *scratch) extend(full []byte, more int) []byte {
	need := len(full) + more
	if need > s.most {
		return slices.Grow(full, max(more, cap(full))) // At least twice as much: more of this size comes behind it.
	}
	if need > cap(s.buffer) {
		s.buffer = make([]byte, 0, min(2*need, s.most))
	}
	return append(s.buffer[:0], full...)
}

// outbox is where a connection gathers what it sends, until the flush. It poses as a message, because the driver takes its buffer from nobody
// but a message: sent before others, it puts them into memory that is kept.
type outbox struct {
	scratch
	next int // bytes that are to come
}

// outboxOf returns the outbox of a connection, with room for the messages that come next.
func outboxOf(conn *pgx.Conn, next int) *outbox {
	const key = "outbox"
	kept := conn.PgConn().CustomData()
	o, ok := kept[key].(*outbox)
	if !ok {
		o = &outbox{scratch: scratch{most: maxOutbox}}
		kept[key] = o
	}
	o.next = next
	return o
}

// Encode implements pgproto3.Message.
func (o *outbox) Encode(full []byte) ([]byte, error) { return o.extend(full, o.next), nil }

// Decode implements pgproto3.Message.
func (*outbox) Decode([]byte) error { return nil }

// Frontend implements pgproto3.FrontendMessage.
func (*outbox) Frontend() {}
