package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/secrets"
	keystore "rubato/internal/store/keys"
)

// Put stores a secret under the key k1.
func (b *Bundle) Put(t *testing.T, name, value string) secrets.Secret {
	t.Helper()
	stored, _, err := secrets.NewService(keystore.NewSecrets(b.DB), Sealing(t, "k1")).
		Put(t.Context(), Tenant, secrets.Request{Name: name, Value: secrets.NewText(value)})
	require.NoError(t, err)
	return stored
}

// Canary is a value of a secret, to be searched for where no secret may be.
const Canary = "canary-94b1c7ae"

// Sealing returns a keyring of keys that are made of their IDs, the newest first.
func Sealing(t *testing.T, ids ...string) *secrets.Keyring {
	t.Helper()
	keys := make([]secrets.Key, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, secrets.Key{ID: id, Bytes: secrets.NewText((id + strings.Repeat(".", secrets.KeySize))[:secrets.KeySize])})
	}
	ring, err := secrets.NewKeyring(keys)
	require.NoError(t, err)
	return ring
}
