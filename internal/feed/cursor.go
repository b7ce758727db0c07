package feed

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

// startOverlap is the window before the newest sent start in which unsent starts may exist, because
// their transactions committed later. It equals the deadline of a worker for the commit of a start.
const startOverlap = 5 * time.Second

// Cursor is the position of a watcher: all events up to a position, and, because running runs have
// no position, all starts up to an instant. It is the id of an event.
type Cursor struct {
	Position Position
	Started  time.Time // start time of the newest sent RunStarted; zero: none
	Run      runs.ID   // that run
}

const (
	positionSize = 8 + 8 + 16 + 8
	cursorSize   = positionSize + 8 + 16
)

// WithStart returns the mark after the start of a run was sent too.
func (m Cursor) WithStart(run runs.Run) Cursor {
	if !run.StartedAt.Before(m.Started) {
		m.Started, m.Run = run.StartedAt, run.ID
	}
	return m
}

// Includes reports whether the start of a run was certainly sent before the mark. For starts
// shortly before the newest it returns false, except for the newest itself.
func (m Cursor) Includes(run runs.Run) bool {
	return run.ID == m.Run || run.StartedAt.Before(m.Started.Add(-startOverlap))
}

// String returns the mark as watchers send it back.
func (m Cursor) String() string {
	p := m.Position
	raw := make([]byte, 0, cursorSize)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.TxID))
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.Row))
	raw = append(raw, p.Run[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.At.UnixMilli()))
	if !m.Started.IsZero() {
		raw = binary.BigEndian.AppendUint64(raw, uint64(m.Started.UnixMicro()))
		raw = append(raw, m.Run[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseCursor reads what String wrote. The error is an [errs.Malformed].
func ParseCursor(text string) (Cursor, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != positionSize && len(raw) != cursorSize {
		return Cursor{}, errs.New(errs.Malformed, "invalid_event_id", "the event id cannot be read; send the id of an event, or none")
	}
	m := Cursor{Position: Position{
		TxID: int64(binary.BigEndian.Uint64(raw)),
		Row:  int64(binary.BigEndian.Uint64(raw[8:])),
		Run:  [16]byte(raw[16:32]),
		At:   time.UnixMilli(int64(binary.BigEndian.Uint64(raw[32:]))).UTC(),
	}}
	if len(raw) == cursorSize {
		m.Started = time.UnixMicro(int64(binary.BigEndian.Uint64(raw[positionSize:]))).UTC()
		m.Run = runs.ID(raw[positionSize+8:])
	}
	return m, nil
}
