package web

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
)

// scopedKeys is a database in which every session is of a key with one scope.
type scopedKeys struct{ scope auth.Scope }

func (l scopedKeys) FindKey(context.Context, [sha256.Size]byte) (auth.Principal, error) {
	return auth.Principal{Name: "ann", Scopes: []auth.Scope{l.scope}}, nil
}

func (scopedKeys) Open(context.Context, [sha256.Size]byte, [sha256.Size]byte, time.Duration) error {
	return nil
}

func (scopedKeys) Find(context.Context, [sha256.Size]byte) (key [sha256.Size]byte, err error) {
	return key, nil
}

func (scopedKeys) Close(context.Context, [sha256.Size]byte) error { return nil }

// A form that is wrong in any way does not hide that a reading key may not send it: 403 comes
// before 400, 404 and 422, on every route, and the API is not asked at all.
func TestAReadingKeyIsRefusedBeforeItsFormIsRead(t *testing.T) {
	t.Parallel()
	forms := map[string]string{"Empty": "", "Nonsense": "name=&url=ftp://x&action=explode&until=never&for=soon", "Unreadable": "name=%zz", "Huge": "name=" + strings.Repeat("x", maxForm+1)}
	placeholder := regexp.MustCompile(`\{[a-z]+\}`)
	tried := 0
	for pattern := range pages() {
		method, path, _ := strings.Cut(pattern, " ")
		if method != http.MethodPost {
			continue
		}
		send := func(form string, scope auth.Scope, fragment string) (status, asked int) {
			s := New(Config{
				Auth: auth.NewAuthenticator(scopedKeys{scope}), Sessions: scopedKeys{}, Logger: slog.New(slog.DiscardHandler),
				API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked++
					w.WriteHeader(http.StatusTeapot)
					_, _ = w.Write([]byte(`{"status":418,"title":"no","detail":"no"}`))
				}),
			})
			r := httptest.NewRequest(http.MethodPost, placeholder.ReplaceAllString(path, "nonsense"), strings.NewReader(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(fragmentHeader, fragment)
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: "x"})
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			return answer.Code, asked
		}
		for name, form := range forms {
			for _, fragment := range []string{"", "true"} {
				status, asked := send(form, auth.Read, fragment)
				if pattern == "POST /console/signout" {
					require.NotEqual(t, http.StatusForbidden, status)
					continue
				}
				require.Equal(t, http.StatusForbidden, status, "%s %s", pattern, name)
				require.Zero(t, asked, "%s %s", pattern, name)
				status, _ = send(form, auth.Write, fragment)
				require.NotEqual(t, http.StatusForbidden, status, "%s %s", pattern, name)
			}
		}
		tried++
	}
	require.Greater(t, tried, 15)
}
