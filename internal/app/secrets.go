package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"rubato/internal/config"
	"rubato/internal/secrets"
	"rubato/internal/store"
	"rubato/internal/telemetry"
)

// secretKeysFile holds the keys that a dev server encrypts secrets under, in its data directory.
const secretKeysFile = "secret-keys.json"

// keyringOf returns the keyring that settings ask for.
func keyringOf(s config.Secrets) (*secrets.Keyring, error) {
	keys := make([]secrets.Key, 0, len(s.Keys))
	for _, k := range s.Keys {
		keys = append(keys, secrets.Key{ID: k.ID, Bytes: secrets.NewText(string(k.Bytes))})
	}
	return secrets.NewKeyring(keys)
}

// secretsOpen is the check that every stored secret can be decrypted: the program has the keys that they are encrypted under. Without
// secrets it holds without keys.
func (c *core) secretsOpen() telemetry.Check {
	return telemetry.Check{Name: "secrets", Ask: secrets.NewChecker(store.NewSecrets(c.db), c.keyring).Check}
}

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

// Rekey seals every secret and signing key under the newest of the keys in the settings.
type Rekey struct {
	Settings config.Config
	Logger   *slog.Logger
}

// Run returns how many values are sealed under the newest key now, and what could not be opened. It may be interrupted and repeated,
// while the other programs run.
func (r Rekey) Run(ctx context.Context) (done int, failed []string, err error) {
	c, err := openCore(ctx, r.Settings, r.Logger, 1)
	if err != nil {
		return 0, nil, err
	}
	defer c.close(ctx)
	pass, err := c.keyring.Rekey(ctx, store.NewSecrets(c.db))
	if errors.Is(err, secrets.ErrNoKeys) {
		return 0, nil, fmt.Errorf("%s is not set: %w", config.SecretKeys, err)
	}
	return pass.Done, pass.Failed, err
}
