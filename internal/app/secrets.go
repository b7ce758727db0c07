package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"rubato/internal/config"
	"rubato/internal/secrets"
	keystore "rubato/internal/store/keys"
	"rubato/internal/telemetry"
)

// keyringOf returns the keyring of the settings.
func keyringOf(s config.Secrets) (*secrets.Keyring, error) {
	keys := make([]secrets.Key, 0, len(s.Keys))
	for _, k := range s.Keys {
		keys = append(keys, secrets.Key{ID: k.ID, Bytes: secrets.NewText(string(k.Bytes))})
	}
	return secrets.NewKeyring(keys)
}

// SecretsOpen is the readiness check that every stored secret can be decrypted with the configured
// keys. Without stored secrets it needs no keys.
func (c *Core) SecretsOpen() telemetry.Check {
	return telemetry.Check{Name: "secrets", Ask: secrets.NewChecker(keystore.NewSecrets(c.DB), c.Keyring).Check}
}

// Rekey re-encrypts every secret and signing key under the newest configured key.
type Rekey struct {
	Settings config.Config
	Logger   *slog.Logger
}

// Run returns the number of values that are encrypted under the newest key now, and the names of
// those that could not be decrypted. It is idempotent, can be interrupted, and may run while other
// programs run.
func (r Rekey) Run(ctx context.Context) (done int, failed []string, err error) {
	c, err := OpenCore(ctx, r.Settings, r.Logger, 1)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close(ctx)
	pass, err := c.Keyring.Rekey(ctx, keystore.NewSecrets(c.DB))
	if errors.Is(err, secrets.ErrNoKeys) {
		return 0, nil, fmt.Errorf("%s is not set: %w", config.SecretKeys, err)
	}
	return pass.Done, pass.Failed, err
}
