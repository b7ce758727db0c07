package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// secretKeySize is the length of an encryption key, in bytes.
const secretKeySize = 32

var secretKeyID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// secretKeys parses keys written as id:base64, comma-separated. Its errors repeat no part of a key
// but its ID.
func secretKeys(target *[]SecretKey, value string) error {
	var keys []SecretKey
	for i, part := range strings.Split(value, ",") {
		id, encoded, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found || !secretKeyID.MatchString(id) {
			return fmt.Errorf("key %d must be id:base64, such as k1:<output of openssl rand -base64 32>, the id of up to 64 letters, digits, dots, hyphens and underscores", i+1)
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) != secretKeySize {
			return fmt.Errorf("the key %q must be the base64 of exactly %d bytes, such as openssl rand -base64 32 prints", id, secretKeySize)
		}
		if slices.ContainsFunc(keys, func(k SecretKey) bool { return k.ID == id }) {
			return fmt.Errorf("the id %q is used twice: each key needs a unique id that is never reused", id)
		}
		if !slices.ContainsFunc(raw, func(b byte) bool { return b != raw[0] }) {
			return errors.New("the key " + id + " is one byte repeated, which can be guessed")
		}
		keys = append(keys, SecretKey{
			ID:    id,
			Bytes: raw,
		})
	}
	*target = keys
	return nil
}

// shownKeys returns the IDs of keys.
func shownKeys(keys []SecretKey) string {
	ids := make([]string, 0, len(keys))
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return strings.Join(ids, ",")
}
