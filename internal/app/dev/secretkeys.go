package dev

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"rubato/internal/config"
	"rubato/internal/secrets"
)

// secretKeysFile holds the keys that a dev server encrypts secrets under, in its data directory.
const secretKeysFile = "secret-keys.json"

// secretKeys returns the keys of a dev server, which makes itself one with its first start and keeps it for its owner alone.
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
