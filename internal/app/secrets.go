package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"rubato/internal/config"
	"rubato/internal/secrets"
	"rubato/internal/store"
	"rubato/internal/telemetry"
)

// keyringOf returns the keyring that settings ask for.
func keyringOf(s config.Secrets) (*secrets.Keyring, error) {
	keys := make([]secrets.Key, 0, len(s.Keys))
	for _, k := range s.Keys {
		keys = append(keys, secrets.Key{ID: k.ID, Bytes: secrets.NewText(string(k.Bytes))})
	}
	return secrets.NewKeyring(keys)
}

// SecretsOpen is the check that every stored secret can be decrypted: the program has the keys that they are encrypted under. Without
// secrets it holds without keys.
func (c *Core) SecretsOpen() telemetry.Check {
	return telemetry.Check{Name: "secrets", Ask: secrets.NewChecker(store.NewSecrets(c.DB), c.Keyring).Check}
}

// Rekey seals every secret and signing key under the newest of the keys in the settings.
type Rekey struct {
	Settings config.Config
	Logger   *slog.Logger
}

// Run returns how many values are sealed under the newest key now, and what could not be opened. It may be interrupted and repeated,
// while the other programs run.
func (r Rekey) Run(ctx context.Context) (done int, failed []string, err error) {
	c, err := OpenCore(ctx, r.Settings, r.Logger, 1)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close(ctx)
	pass, err := c.Keyring.Rekey(ctx, store.NewSecrets(c.DB))
	if errors.Is(err, secrets.ErrNoKeys) {
		return 0, nil, fmt.Errorf("%s is not set: %w", config.SecretKeys, err)
	}
	return pass.Done, pass.Failed, err
}
