package pg

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// The driver allocates a buffer of a few bytes for each statement and each flush, grows it to a
// batch, and discards it. Clearing and collecting that memory costs time, so that each connection
// keeps two buffers of its own.
const (
	maxArrays = 256 << 10 // bytes of arrays per statement: twice a full batch of ordinary runs
	maxOutbox = 512 << 10 // bytes per flush: one such batch
)

// scratch is a reusable buffer of a connection, for one statement at a time.
type scratch struct {
	buffer []byte
	most   int // bytes kept for reuse; a batch of long answers may need far more
}

// extend returns a buffer with the content of full and room for more bytes. It is valid until the
// next call of extend.
func (s *scratch) extend(full []byte, more int) []byte {
	need := len(full) + more
	if need > s.most {
		return slices.Grow(full, max(more, cap(full))) // Double it, because more of this size follows.
	}
	if need > cap(s.buffer) {
		s.buffer = make([]byte, 0, min(2*need, s.most))
	}
	return append(s.buffer[:0], full...)
}

// outbox gathers the outgoing bytes of a connection until the flush. It is a frontend message,
// because the driver takes a buffer only from a message: sent first, it moves the following
// messages into reused memory.
type outbox struct {
	scratch
	next int // expected bytes
}

// outboxOf returns the outbox of a connection, with room for the next messages.
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
