package app_test

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/app/apiserver"
)

// TestMissingSecretKeyMakesAProgramNotReady: and with the key it is, whatever others it has.
func TestMissingSecretKeyMakesAProgramNotReady(t *testing.T) {
	t.Parallel()
	database := migrated(t)
	key := func(id string) string {
		return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 16)))
	}
	serve := func(keys string) app.Addresses {
		cfg := settings(t, database, "RUBATO_BOOTSTRAP_API_KEY=first-key", "RUBATO_SECRET_KEYS="+keys)
		return background(t, func(ctx context.Context, started func(app.Addresses)) error {
			return apiserver.API{Settings: cfg, Logger: slog.New(slog.DiscardHandler), Started: started}.Run(ctx)
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
		status, text := get(t, serve(keys).Admin+"/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, text, `\"k1\" is`)
		require.Contains(t, text, "RUBATO_SECRET_KEYS")
		require.NotContains(t, text, "canary")
	}
}
