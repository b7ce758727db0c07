// Package ids formats and parses IDs: a prefix that names the kind of object, and a UUID.
package ids

import (
	"encoding/binary"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"rubato/internal/errs"
)

// Kind is a kind of object with IDs.
type Kind struct {
	Prefix string // of its IDs, with the underscore
	Noun   string // noun in error messages, such as "endpoint"
}

// String returns an ID as users see it: the prefix and the UUID in its canonical form.
func (k Kind) String(id [16]byte) string { return k.Prefix + uuid.UUID(id).String() }

// Parse reads the form that String writes. A text that is not an ID is an [errs.NotFound]. Invalid
// UTF-8 is an [errs.Malformed].
func (k Kind) Parse(s string) ([16]byte, error) {
	raw, found := strings.CutPrefix(s, k.Prefix)
	id, err := uuid.Parse(raw)
	switch {
	case found && err == nil && len(raw) == 36:
		return id, nil
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return uuid.Nil, errs.New(errs.Malformed, "invalid_id", "the id cannot be read; "+k.looks())
	default:
		return uuid.Nil, errs.New(errs.NotFound, "not_found", "there is no such "+k.Noun+"; "+k.looks())
	}
}

func (k Kind) looks() string {
	article := "a"
	if strings.ContainsRune("aeiou", rune(k.Noun[0])) {
		article = "an"
	}
	return article + " " + k.Noun + " id looks like " + k.Prefix + "0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
}

// First returns the lowest UUID of a time or later, for UUIDs that begin with Unix milliseconds
// (RFC 9562, versions 7 and 8).
func First(at time.Time) [16]byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return id
}
