package feed

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

// startOverlap is how long before the newest start that was told another one may lie that was not: its transaction was longer under way.
// No worker believes in a start whose commit takes longer.
const startOverlap = 5 * time.Second

// Mark is what a watcher has been told: everything up to a place, and of runs in progress, which have no place, those that started up to
// an instant. It is the id of an event.
type Mark struct {
	Place   Place
	Started time.Time // when the newest run started that was told to have; zero: none was
	Run     runs.ID   // that run
}

const (
	placeSize = 8 + 8 + 16 + 8
	markSize  = placeSize + 8 + 16
)

// Tell returns the mark of who was told of the start of a run too.
func (m Mark) Tell(run runs.Run) Mark {
	if !run.StartedAt.Before(m.Started) {
		m.Started, m.Run = run.StartedAt, run.ID
	}
	return m
}

// Knows reports whether who holds the mark was told of the start of a run for sure. Of those that started shortly before the newest it
// does not know, except for the newest itself.
func (m Mark) Knows(run runs.Run) bool {
	return run.ID == m.Run || run.StartedAt.Before(m.Started.Add(-startOverlap))
}

// String returns the mark as watchers send it back.
func (m Mark) String() string {
	p := m.Place
	raw := make([]byte, 0, markSize)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.TxID)) //nolint:gosec // Read back as it is.
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.Row))  //nolint:gosec // Read back as it is.
	raw = append(raw, p.Run[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.At.UnixMilli()))
	if !m.Started.IsZero() {
		raw = binary.BigEndian.AppendUint64(raw, uint64(m.Started.UnixMicro()))
		raw = append(raw, m.Run[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseMark reads what String wrote. The error is an [errs.Malformed].
func ParseMark(text string) (Mark, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != placeSize && len(raw) != markSize {
		return Mark{}, errs.New(errs.Malformed, "invalid_event_id", "the event id cannot be read; send the id of an event, or none")
	}
	m := Mark{Place: Place{
		TxID: int64(binary.BigEndian.Uint64(raw)),     //nolint:gosec // A negative one lies before everything.
		Row:  int64(binary.BigEndian.Uint64(raw[8:])), //nolint:gosec // A negative one lies before everything.
		Run:  [16]byte(raw[16:32]),
		At:   time.UnixMilli(int64(binary.BigEndian.Uint64(raw[32:]))).UTC(), //nolint:gosec // Judged by whoever resumes.
	}}
	if len(raw) == markSize {
		m.Started = time.UnixMicro(int64(binary.BigEndian.Uint64(raw[placeSize:]))).UTC() //nolint:gosec // One in the future hides starts from whoever made it up.
		m.Run = runs.ID(raw[placeSize+8:])
	}
	return m, nil
}
