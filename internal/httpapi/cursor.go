package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"rubato/internal/errs"
)

const (
	defaultLimit = 50
	codeCursor   = "invalid_cursor"
	digestSize   = 8 // enough to notice a cursor that was taken to another list; it protects nothing
)

// limitOf returns how many items a page holds.
func limitOf(given *int32) int {
	if given == nil {
		return defaultLimit
	}
	return int(*given)
}

// page truncates a list that was read with limit + 1 items, and reports whether another page
// exists.
func page[T any](found []T, asked int) (shown []T, more bool) {
	if len(found) < asked {
		return found, false
	}
	return found[:asked-1], true
}

// filterDigest stands for a list and its filters in a cursor.
func filterDigest(list string, filters ...any) [digestSize]byte {
	sum := sha256.Sum256(fmt.Appendf([]byte(list), "%q", fmt.Sprintf("%#v", filters)))
	return [digestSize]byte(sum[:digestSize])
}

// cursor returns an opaque text from which the list goes on after an item.
func cursor(last [16]byte, digest [digestSize]byte) string {
	return base64.RawURLEncoding.EncodeToString(append(last[:], digest[:]...))
}

// resume returns the item that a cursor goes on after, zero where none is given. The error is an
// [errs.Malformed].
func resume(given *string, digest [digestSize]byte) (last [16]byte, err error) {
	if given == nil {
		return last, nil
	}
	raw, err := decodeCursor(*given)
	if err != nil {
		return last, err
	}
	if len(raw) != len(last)+digestSize {
		return last, noCursor()
	}
	if [digestSize]byte(raw[len(last):]) != digest {
		return last, invalidCursor("belongs to a list with other filters; keep the filters or start again without a cursor")
	}
	return [16]byte(raw[:len(last)]), nil
}

// decodeCursor decodes the cursor of a list.
func decodeCursor(given string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(given)
	if err != nil || len(raw) <= digestSize {
		return nil, noCursor()
	}
	return raw, nil
}

func noCursor() error {
	return invalidCursor("is not a cursor; use the nextCursor of the page before")
}

func invalidCursor(message string) error {
	return &errs.Error{
		Code:    errs.Malformed,
		Reason:  codeCursor,
		Message: "the cursor " + message,
		Fields:  []errs.Field{{Field: "cursor", Code: codeCursor, Message: message}},
	}
}
