package secrets

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// ring returns a keyring with keys derived from their IDs.
func ring(t require.TestingT, ids ...string) *Keyring {
	var keys []Key
	for _, id := range ids {
		keys = append(keys, Key{ID: id, Bytes: NewText((id + strings.Repeat(".", KeySize))[:KeySize])})
	}
	r, err := NewKeyring(keys)
	require.NoError(t, err)
	return r
}

func here() Identity { return Identity{Tenant: [16]byte{1}, Kind: Named, Name: "token"} }

func TestSealedValueOpensOnlyAtItsPlace(t *testing.T) {
	t.Parallel()
	r := ring(t, "k1")
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(1, 200, -1).Draw(t, "value")
		sealed, err := r.Seal(here(), value)
		require.NoError(t, err)
		again, err := r.Seal(here(), value)
		require.NoError(t, err)
		require.NotEqual(t, sealed.Data, again.Data, "equal values do not look alike")

		opened, err := r.Open(here(), sealed)
		require.NoError(t, err)
		require.Equal(t, value, opened.Reveal())
		for _, elsewhere := range []Identity{
			{Tenant: [16]byte{2}, Kind: Named, Name: "token"},
			{Tenant: [16]byte{1}, Kind: Signing, Name: "token"},
			{Tenant: [16]byte{1}, Kind: Named, Name: "tokens"},
			{Tenant: [16]byte{1}, Kind: Named},
		} {
			_, err := r.Open(elsewhere, sealed)
			require.ErrorIs(t, err, ErrUnreadable)
		}
		at := rapid.IntRange(0, len(sealed.Data)-1).Draw(t, "byte")
		sealed.Data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		_, err = r.Open(here(), sealed)
		require.ErrorIs(t, err, ErrUnreadable, "what was changed is not opened")
	})
}

// TestSealedFormatIsStable: values that a release has sealed open in every later release.
func TestSealedFormatIsStable(t *testing.T) {
	t.Parallel()
	data, err := base64.StdEncoding.DecodeString(frozen)
	require.NoError(t, err)

	opened, err := ring(t, "k1").Open(here(), Sealed{KeyID: "k1", Data: data})

	require.NoError(t, err)
	require.Equal(t, canary, opened.Reveal())
}

func TestOldKeysOpenAndTheNewestSeals(t *testing.T) {
	t.Parallel()
	old, err := ring(t, "k1").Seal(here(), canary)
	require.NoError(t, err)

	both := ring(t, "k2", "k1")
	opened, err := both.Open(here(), old)
	require.NoError(t, err)
	require.Equal(t, canary, opened.Reveal())
	fresh, err := both.Seal(here(), canary)
	require.NoError(t, err)
	require.Equal(t, "k2", fresh.KeyID)

	_, err = ring(t, "k2").Open(here(), old)
	require.ErrorIs(t, err, ErrUnreadable)
	require.ErrorContains(t, err, `"k1" is missing`)
	other, err := NewKeyring([]Key{{ID: "k1", Bytes: NewText(strings.Repeat("x", KeySize))}})
	require.NoError(t, err)
	_, err = other.Open(here(), old)
	require.ErrorContains(t, err, `"k1" is another key here`)
	require.NotContains(t, err.Error(), canary)
	_, err = both.Open(here(), Sealed{KeyID: "k1", Data: []byte("short")})
	require.ErrorIs(t, err, ErrUnreadable)
}

func TestEmptyKeyringSealsNothing(t *testing.T) {
	t.Parallel()
	for _, r := range []*Keyring{nil, {}} {
		_, err := r.Seal(here(), canary)
		require.ErrorIs(t, err, ErrNoKeys)
		_, err = r.Open(here(), Sealed{KeyID: "k1"})
		require.ErrorIs(t, err, ErrUnreadable)
	}
}

func TestKeyringRefusesBadKeys(t *testing.T) {
	t.Parallel()
	_, err := NewKeyring([]Key{{ID: "k1", Bytes: NewText("short")}})
	require.ErrorContains(t, err, `"k1" is not 32 bytes`)
	require.NotContains(t, err.Error(), "short")
	key := Key{ID: "k1", Bytes: NewText(strings.Repeat("x", KeySize))}
	_, err = NewKeyring([]Key{key, key})
	require.ErrorContains(t, err, `two secret keys "k1"`)
}

// frozen is the canary, sealed by the first release.
const frozen = "cMVOLt4wgTnIvc7nKxFsTrH+ajvsf8pJBAvzRVjCRCw3XN2BKm0cbRIWOA=="
