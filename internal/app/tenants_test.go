package app_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/app"
	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/errs"
	keystore "rubato/internal/store/keys"
)

// TestAllowedPrefixPermitsCalls follows an allowance from the command to the call.
func TestAllowedPrefixPermitsCalls(t *testing.T) {
	t.Parallel()
	cfg := settings(t, migrated(t))
	list, err := app.Tenants(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, uuid.UUID(keystore.DefaultTenant).String(), list[0].ID)
	require.Empty(t, list[0].Allow)

	require.Equal(t, errs.Invalid, errs.CodeOf(app.AllowTenant(t.Context(), cfg, "default", []string{"http://x"})))
	require.Equal(t, errs.NotFound, errs.CodeOf(app.AllowTenant(t.Context(), cfg, "nobody", nil)))
	require.NoError(t, app.AllowTenant(t.Context(), cfg, "default", []string{"127.0.0.1/32", "*.corp.example"}))

	c, err := app.OpenCore(t.Context(), cfg, slog.New(slog.DiscardHandler), 1)
	require.NoError(t, err)
	defer c.Close(t.Context())
	require.NoError(t, c.Allowances.Refresh(t.Context()))
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	client := c.Outbound()
	call := func(tenant [16]byte) error {
		_, err := client.Do(t.Context(), egress.Request{
			Method: http.MethodGet, URL: target.URL(), Timeout: 10 * time.Second, Allowance: c.Allowances.Of(tenant),
		})
		return err
	}
	require.NoError(t, call(keystore.DefaultTenant))
	require.Error(t, call([16]byte{1}))
	targets := c.Targets()
	require.Nil(t, targets.For(keystore.DefaultTenant).CheckURL(target.URL()))
	require.NotNil(t, targets.For([16]byte{1}).CheckURL(target.URL()))

	require.NoError(t, app.AllowTenant(t.Context(), cfg, list[0].ID, nil))
	require.NoError(t, c.Allowances.Refresh(t.Context()))
	require.Error(t, call(keystore.DefaultTenant))
}
