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
	maxToken     = 7 << 10          // bytes; fits into a header after "Bearer "
	assumedLife  = 5 * time.Minute  // life of a token without expires_in
	longestLife  = 24 * time.Hour   // upper bound, because keys are rotated and clocks are wrong
	shortestLife = 10 * time.Second // a token with a shorter life is replaced only after its expiry
)

// issued is a token and its life, as the server answered.
type issued struct {
	token string
	life  time.Duration
}

// answer is the JSON document of a token server.
type answer struct {
	AccessToken string          `json:"access_token"` //nolint:tagliatelle // RFC 6749.
	TokenType   string          `json:"token_type"`   //nolint:tagliatelle // RFC 6749.
	ExpiresIn   json.RawMessage `json:"expires_in"`   //nolint:tagliatelle // RFC 6749.
	Error       string          `json:"error"`
}

// refusal is an answer without a token.
type refusal struct {
	status int
	// code is an error code of RFC 6749; empty: none.
	code string
	// wait is the requested wait by Retry-After; zero: none.
	wait time.Duration
}

func (r *refusal) Error() string {
	if r.code != "" {
		return fmt.Sprintf("the token server answered %d, %s", r.status, r.code)
	}
	return fmt.Sprintf("the token server answered %d", r.status)
}

// blames reports whether the server may have refused the client authentication.
func (r *refusal) blames() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusBadRequest && (r.code == "invalid_client" || r.code == "invalid_request")
}

// read parses a token response. The error is a [*refusal] if it holds no token.
func read(a egress.Response, now time.Time) (issued, error) {
	var got answer
	fault := json.Unmarshal(a.Body, &got)
	if a.StatusCode != http.StatusOK {
		r := &refusal{status: a.StatusCode}
		if fault == nil && slices.Contains(codes(), got.Error) { // Other text of the server is untrusted.
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

// lifeOf parses expires_in: seconds as a number, or as a string, which some servers write.
func lifeOf(raw json.RawMessage) time.Duration {
	var seconds float64
	if err := json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &seconds); err != nil || seconds <= 0 {
		return assumedLife
	}
	return time.Duration(min(max(seconds, 1), longestLife.Seconds()) * float64(time.Second)) // At least one request.
}

// codes returns the error codes of RFC 6749 section 5.2.
func codes() []string {
	return []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}
}
