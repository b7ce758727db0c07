package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/egress/egresstest"
	"rubato/internal/errs"
	"rubato/internal/store"
)

// TestRulesRefuseWhatIsOurs holds every listener and database of the settings to be refused.
func TestRulesRefuseWhatIsOurs(t *testing.T) {
	t.Parallel()
	cfg := settings(t, "postgres://u:p@db.corp.example:5433/rubato?sslmode=disable", "RUBATO_LISTEN=127.0.0.1:8080", "RUBATO_ADMIN_LISTEN=:9090",
		"RUBATO_EGRESS_ALLOW=127.0.0.0/8", "RUBATO_EGRESS_PORTS=1-65535", "RUBATO_EGRESS_ALLOW_HOSTS=*.corp.example")
	c := &core{settings: cfg, own: []string{"127.0.0.1:8081"}}
	policy := egress.NewPolicy(c.rules())
	for _, url := range []string{
		"http://127.0.0.1:8080/v1/endpoints", "http://localhost:8080/", "http://127.0.0.1:9090/metrics", "http://127.0.0.2:9090/", "http://127.0.0.1:8081/",
		"http://db.corp.example:5433/",
	} {
		require.NotNil(t, policy.CheckURL(url), url)
	}
	for _, url := range []string{"http://127.0.0.1:8082/", "http://db.corp.example:8080/", "http://example.com:8080/"} {
		require.Nil(t, policy.CheckURL(url), url)
	}
}

func TestUserAgentNamesAContact(t *testing.T) {
	t.Parallel()
	require.True(t, strings.HasPrefix(userAgent(""), "Rubato/"))
	require.NotContains(t, userAgent(""), "(")
	require.True(t, strings.HasSuffix(userAgent("https://example.com/bot"), " (+https://example.com/bot)"))
}

// TestTenantsMayCallWhatTheOperatorAllows follows an allowance from the command to the call.
func TestTenantsMayCallWhatTheOperatorAllows(t *testing.T) {
	t.Parallel()
	cfg := settings(t, migrated(t))
	list, err := Tenants(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, uuid.UUID(store.DefaultTenant).String(), list[0].ID)
	require.Empty(t, list[0].Allow)

	require.Equal(t, errs.Invalid, errs.CodeOf(AllowTenant(t.Context(), cfg, "default", []string{"http://x"})))
	require.Equal(t, errs.NotFound, errs.CodeOf(AllowTenant(t.Context(), cfg, "nobody", nil)))
	require.NoError(t, AllowTenant(t.Context(), cfg, "default", []string{"127.0.0.1/32", "*.corp.example"}))

	c, err := openCore(t.Context(), cfg, slog.New(slog.DiscardHandler), 1)
	require.NoError(t, err)
	defer c.close(context.Background())
	require.NoError(t, c.allowed.refresh(t.Context()))
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	client := c.egress()
	defer client.Close()
	call := func(tenant [16]byte) error {
		_, err := client.Do(t.Context(), egress.Request{
			Method: http.MethodGet, URL: target.URL(), Timeout: 10 * time.Second, Allowance: c.allowed.Of(tenant),
		})
		return err
	}
	require.NoError(t, call(store.DefaultTenant))
	require.Error(t, call([16]byte{1}))
	targets := c.targets()
	require.Nil(t, targets.For(store.DefaultTenant).CheckURL(target.URL()))
	require.NotNil(t, targets.For([16]byte{1}).CheckURL(target.URL()))

	require.NoError(t, AllowTenant(t.Context(), cfg, list[0].ID, nil))
	require.NoError(t, c.allowed.refresh(t.Context()))
	require.Error(t, call(store.DefaultTenant))
}

func TestAllowancesThatCannotBeReadStayInForce(t *testing.T) {
	t.Parallel()
	reader := &scriptedReader{allowed: map[[16]byte][]string{{1}: {"10.0.0.0/8"}}}
	a := newAllowances(reader, slog.New(slog.DiscardHandler))
	require.Nil(t, a.Of([16]byte{1}))
	require.NoError(t, a.refresh(t.Context()))
	reader.err = errors.New("the database is away")
	require.Error(t, a.refresh(t.Context()))
	require.Len(t, a.Of([16]byte{1}).Prefixes, 1)
	require.Nil(t, a.Of([16]byte{2}))
}

// scriptedReader answers what a test tells it to.
type scriptedReader struct {
	allowed map[[16]byte][]string
	err     error
}

func (s *scriptedReader) Allowed(context.Context) (map[[16]byte][]string, error) {
	return s.allowed, s.err
}
