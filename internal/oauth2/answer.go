package oauth2

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"rubato/internal/egress"
)

const (
	maxAnswer    = 64 << 10
	maxToken     = 7 << 10          // what fits a header beside "Bearer "
	assumedLife  = 5 * time.Minute  // of a token whose server does not say
	longestLife  = 24 * time.Hour   // however long the server says: keys get rotated, and clocks are wrong
	shortestLife = 10 * time.Second // below which a token is not renewed ahead, only replaced
)

// issued is a token as a server gave it.
type issued struct {
	token string
	life  time.Duration
}

// answer is what a token server says, good or bad.
type answer struct {
	AccessToken string          `json:"access_token"` //nolint:tagliatelle // RFC 6749.
	TokenType   string          `json:"token_type"`   //nolint:tagliatelle // RFC 6749.
	ExpiresIn   json.RawMessage `json:"expires_in"`   //nolint:tagliatelle // RFC 6749.
	Error       string          `json:"error"`
}

// refusal is an answer that holds no token.
type refusal struct {
	status int
	code   string        // one of RFC 6749; empty: none
	wait   time.Duration // that the server asks for; zero: none
}

func (r *refusal) Error() string {
	if r.code != "" {
		return fmt.Sprintf("the token server answered %d, %s", r.status, r.code)
	}
	return fmt.Sprintf("the token server answered %d", r.status)
}

// blames reports whether the answer may be about how the client proved who it is.
func (r *refusal) blames() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusBadRequest && (r.code == "invalid_client" || r.code == "invalid_request")
}

// read takes a token out of an answer. The error is a [*refusal] where the server gave none.
func read(a egress.Response, now time.Time) (issued, error) {
	var got answer
	fault := json.Unmarshal(a.Body, &got)
	if a.StatusCode != http.StatusOK {
		r := &refusal{status: a.StatusCode}
		if fault == nil && slices.Contains(codes(), got.Error) { // Nothing else of the server's is shown.
			r.code = got.Error
		}
		if at, asked := egress.RetryAfter(a.Header, now); asked {
			r.wait = at.Sub(now)
		}
		return issued{}, r
	}
	switch {
	case fault != nil || a.Truncated:
		return issued{}, errors.New("the token server answered 200 without a JSON document of at most 64 KiB")
	case got.AccessToken == "" || len(got.AccessToken) > maxToken || strings.ContainsFunc(got.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return issued{}, errors.New("the token server answered 200 without an access_token that fits a header")
	case got.TokenType != "" && !strings.EqualFold(got.TokenType, "Bearer"):
		return issued{}, errors.New("the token server gave a token of another type than Bearer")
	}
	return issued{token: got.AccessToken, life: lifeOf(got.ExpiresIn)}, nil
}

// lifeOf reads expires_in, seconds as a number; some servers write it as a string.
func lifeOf(raw json.RawMessage) time.Duration {
	var seconds float64
	if err := json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &seconds); err != nil || seconds <= 0 {
		return assumedLife
	}
	return time.Duration(min(max(seconds, 1), longestLife.Seconds()) * float64(time.Second)) // Good for one request at least.
}

// codes returns the errors of RFC 6749 section 5.2.
func codes() []string {
	return []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}
}
