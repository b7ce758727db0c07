package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/secrets"
	"rubato/internal/store"
)

// put stores a secret under the key k1.
func (b *bundle) put(t *testing.T, name, value string) secrets.Secret {
	t.Helper()
	stored, _, err := secrets.NewService(store.NewSecrets(b.db), sealing(t, "k1")).
		Put(t.Context(), tenant, secrets.Request{Name: name, Value: secrets.NewText(value)})
	require.NoError(t, err)
	return stored
}

const canary = "canary-94b1c7ae"

// sealing returns a keyring of keys that are made of their IDs, the newest first.
func sealing(t *testing.T, ids ...string) *secrets.Keyring {
	t.Helper()
	var keys []secrets.Key
	for _, id := range ids {
		keys = append(keys, secrets.Key{ID: id, Bytes: secrets.NewText((id + strings.Repeat(".", secrets.KeySize))[:secrets.KeySize])})
	}
	ring, err := secrets.NewKeyring(keys)
	require.NoError(t, err)
	return ring
}
