package store

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// storable returns text that a Postgres text column accepts: valid UTF-8 without NUL. Targets may
// send anything.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// object encodes a string map as a JSON object. It cannot fail. Nil gives the empty object.
func object(m map[string]string) json.RawMessage {
	if m == nil {
		return json.RawMessage("{}")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return raw
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func textMap(raw json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if emptyObject(raw) {
		return m, nil
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// hostOf returns the host and port of a URL. The rest of the URL may hold secrets.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
