package pg

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// Storable returns text that a Postgres text column accepts: valid UTF-8 without NUL. Targets may
// send anything.
func Storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// EncodeTexts encodes a string map as a JSON object. It cannot fail. Nil gives the empty object.
func EncodeTexts(m map[string]string) json.RawMessage {
	if m == nil {
		return json.RawMessage("{}")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

// Millis returns the duration of n milliseconds.
func Millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// DecodeTexts decodes a JSON object of texts.
func DecodeTexts(raw json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if emptyObject(raw) {
		return m, nil
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// HostOf returns the host and port of a URL. The rest of the URL may hold secrets.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
