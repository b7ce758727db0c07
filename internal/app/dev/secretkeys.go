package dev

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"rubato/internal/config"
	"rubato/internal/secrets"
)

// secretKeysFile holds the encryption keys of secrets. It is in the data directory.
const secretKeysFile = "secret-keys.json"

// secretKeys returns the encryption keys of a dev server. The first start creates one; only its
// owner may read it.
func (d *dataDir) secretKeys() ([]config.SecretKey, error) {
	var keys []config.SecretKey
	err := readJSON(d.in(secretKeysFile), &keys)
	if err == nil && len(keys) > 0 {
		return keys, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the keys that secrets are encrypted under: %w", err)
	}
	fresh := config.SecretKey{ID: "dev", Bytes: make([]byte, secrets.KeySize)}
	_, _ = rand.Read(fresh.Bytes) // It never fails.
	keys = []config.SecretKey{fresh}
	return keys, writeJSON(d.in(secretKeysFile), keys)
}
