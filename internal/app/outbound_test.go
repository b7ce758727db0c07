package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/config"
	"rubato/internal/egress"
)

// TestEgressRulesRefuseOwnListenersAndDatabase holds every listener and database of the settings to
// be refused.
func TestEgressRulesRefuseOwnListenersAndDatabase(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load([]string{
		"DATABASE_URL=postgres://u:p@db.corp.example:5433/rubato?sslmode=disable", "RUBATO_LISTEN=127.0.0.1:8080", "RUBATO_ADMIN_LISTEN=:9090",
		"RUBATO_EGRESS_ALLOW=127.0.0.0/8", "RUBATO_EGRESS_PORTS=1-65535", "RUBATO_EGRESS_ALLOW_HOSTS=*.corp.example",
	}, config.Program{})
	require.NoError(t, err)
	c := &Core{Settings: cfg, own: []string{"127.0.0.1:8081"}}
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

func TestAllowListsStayInForceWhileTheDatabaseFails(t *testing.T) {
	t.Parallel()
	reader := &scriptedReader{allowed: map[[16]byte][]string{{1}: {"10.0.0.0/8"}}}
	a := newAllowances(reader, slog.New(slog.DiscardHandler))
	require.Nil(t, a.Of([16]byte{1}))
	require.NoError(t, a.Refresh(t.Context()))
	reader.err = errors.New("the database is away")
	require.Error(t, a.Refresh(t.Context()))
	require.Len(t, a.Of([16]byte{1}).Prefixes, 1)
	require.Nil(t, a.Of([16]byte{2}))
}

// scriptedReader answers as the test sets it.
type scriptedReader struct {
	allowed map[[16]byte][]string
	err     error
}

func (s *scriptedReader) Allowed(context.Context) (map[[16]byte][]string, error) {
	return s.allowed, s.err
}
