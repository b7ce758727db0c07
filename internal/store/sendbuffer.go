package store

import (
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// sendBytes is room for the statements of a full batch of finished runs whose answers are short.
const sendBytes = 256 << 10

// sendBuffers are used again by whoever sends a batch next: the driver throws its own away after every flush, and lets the next one grow
// from nothing, which copies a batch five times over.
var sendBuffers = sync.Pool{New: func() any { return new([sendBytes]byte) }}

// sendBuffer is a message of no bytes. To send it makes room for those that follow, or, once it is to be given back, takes the room away
// again: the driver keeps a buffer that it had little to write from.
type sendBuffer struct {
	room     *[sendBytes]byte
	takeBack bool
}

// lendBuffer makes room on a connection for what is sent next.
func lendBuffer(conn *pgx.Conn) *sendBuffer {
	b := &sendBuffer{room: sendBuffers.Get().(*[sendBytes]byte)} //nolint:forcetypeassert // There is nothing else in it.
	conn.PgConn().Frontend().Send(b)
	return b
}

// giveBack lets others use the buffer. Everything that was sent on the connection must have been answered.
func (b *sendBuffer) giveBack(conn *pgx.Conn) {
	b.takeBack = true
	conn.PgConn().Frontend().Send(b)
	sendBuffers.Put(b.room)
}

// Frontend implements pgproto3.FrontendMessage.
func (*sendBuffer) Frontend() {}

// Decode implements pgproto3.Message. Nobody receives what is never sent.
func (*sendBuffer) Decode([]byte) error { return errors.ErrUnsupported }

// Encode implements pgproto3.Message: it returns what waits to be sent, in the buffer that is to be used from now on.
func (b *sendBuffer) Encode(waiting []byte) ([]byte, error) {
	lent := cap(waiting) > 0 && &waiting[:1][0] == &b.room[0]
	switch {
	case b.takeBack && lent:
		return slices.Clone(waiting), nil
	case b.takeBack || len(waiting) > sendBytes:
		return waiting, nil
	default:
		return append(b.room[:0], waiting...), nil
	}
}
