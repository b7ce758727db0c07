package app

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/config"
	"rubato/internal/secrets"
)

func TestDevServerMakesItselfOneSecretKeyAndKeepsIt(t *testing.T) {
	t.Parallel()
	dir := opened(t)

	first, err := dir.secretKeys()
	require.NoError(t, err)
	require.Len(t, first, 1)
	require.Len(t, first[0].Bytes, secrets.KeySize)
	again, err := dir.secretKeys()
	require.NoError(t, err)
	require.Equal(t, first, again, "what was encrypted yesterday can be read today")
	info, err := os.Stat(filepath.Join(dir.path, secretKeysFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	other, err := opened(t).secretKeys()
	require.NoError(t, err)
	require.NotEqual(t, first[0].Bytes, other[0].Bytes)
	_, err = keyringOf(config.Secrets{Keys: first})
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(dir.in(secretKeysFile), []byte("{"), 0o600))
	_, err = dir.secretKeys()
	require.ErrorContains(t, err, "reading the keys that secrets are encrypted under", "a broken file is not replaced: its keys may be all there is")
}

// TestProgramWithoutTheKeyOfASecretIsNotReadyAndNamesIt: and with the key it is, whatever others it has.
func TestProgramWithoutTheKeyOfASecretIsNotReadyAndNamesIt(t *testing.T) {
	t.Parallel()
	database := migrated(t)
	key := func(id string) string {
		return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 16)))
	}
	serve := func(keys string) Addresses {
		cfg := settings(t, database, "RUBATO_BOOTSTRAP_API_KEY=first-key", "RUBATO_SECRET_KEYS="+keys)
		return background(t, func(ctx context.Context, started func(Addresses)) error {
			return API{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: started}.Run(ctx)
		})
	}
	first := serve(key("k1"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, first.API+"/v1/secrets/token", strings.NewReader(`{"value":"canary"}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer first-key")
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusCreated, res.StatusCode)

	require.Equal(t, http.StatusOK, statusOf(t, serve(key("k2")+","+key("k1")).Admin+"/readyz"))
	for _, keys := range []string{key("k2"), "", "k1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("zy", 16)))} {
		status, text, err := probe(t.Context(), serve(keys).Admin+"/readyz")
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, text, `\"k1\" is`)
		require.Contains(t, text, "RUBATO_SECRET_KEYS")
		require.NotContains(t, text, "canary")
	}
}
