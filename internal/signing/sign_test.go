package signing

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/secrets"
)

// TestSignatureIsThatOfTheStandard holds a signature against the example that the Standard Webhooks
// libraries publish.
func TestSignatureIsThatOfTheStandard(t *testing.T) {
	t.Parallel()
	m := Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", At: time.Unix(1614265330, 0), Body: []byte(`{"test": 2432232314}`)}
	key := secrets.NewText("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

	got, err := Sign(m, []secrets.Text{key})

	require.NoError(t, err)
	require.Equal(t, m.ID, got.Get("webhook-id"))
	require.Equal(t, "1614265330", got.Get("webhook-timestamp"))
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got.Get("webhook-signature"))
}

func TestEveryLiveKeySigns(t *testing.T) {
	t.Parallel()
	first, second := NewText(), NewText()
	require.NotEqual(t, first.Reveal(), second.Reveal())
	m := Message{ID: "run_1", At: time.Unix(1, 0)}

	both, err := Sign(m, []secrets.Text{first, second})
	require.NoError(t, err)

	require.Regexp(t, `^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$`, both.Get("webhook-signature"))
	alone, err := Sign(m, []secrets.Text{second})
	require.NoError(t, err)
	require.Contains(t, both.Get("webhook-signature"), " "+alone.Get("webhook-signature"))
}

func TestKeysAreAsTheStandardWantsThem(t *testing.T) {
	t.Parallel()
	text := NewText()
	require.Regexp(t, `^whsec_`, text.Reveal())
	raw, err := base64.StdEncoding.DecodeString(text.Reveal()[len("whsec_"):])
	require.NoError(t, err)
	require.Len(t, raw, 32, "the standard wants 24 to 64 bytes")
	require.NotContains(t, fmt.Sprint(text), text.Reveal())
}

func TestNothingIsSignedWithoutAKey(t *testing.T) {
	t.Parallel()
	_, err := Sign(Message{ID: "run_1"}, nil)
	require.ErrorIs(t, err, ErrNoKey)
	for _, bad := range []string{"", "whsec_", "canary", "whsec_%canary%"} {
		_, err = Sign(Message{ID: "run_1"}, []secrets.Text{secrets.NewText(bad)})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "canary")
	}
}

func TestKeyIDsAreRead(t *testing.T) {
	t.Parallel()
	id := NewKeyID()
	read, err := ParseKeyID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, read)
	for _, bad := range []string{"", "sgk_", "key_" + id.String()[4:], id.String() + "0"} {
		_, err := ParseKeyID(bad)
		require.ErrorContains(t, err, "there is no such signing key")
	}
	_, err = ParseKeyID("\xff")
	require.ErrorContains(t, err, "cannot be read")
}
