package oauth2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a token server in the place of the network: it answers with the next of its answers,
// the last one again and again.
type server struct {
	mu      sync.Mutex
	asked   []egress.Request
	answers []egress.Response
	fault   error
	delay   time.Duration
}

func (s *server) Do(ctx context.Context, r egress.Request) (egress.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	at := min(len(s.asked), len(s.answers)) - 1
	fault, delay := s.fault, s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return egress.Response{}, ctx.Err()
	}
	if fault != nil {
		return egress.Response{}, fault
	}
	return s.answers[at], nil
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func answered(status int, body string) egress.Response {
	return egress.Response{StatusCode: status, Body: []byte(body), Header: http.Header{}}
}

func token(name, life string) egress.Response {
	return answered(200, `{"access_token":"`+name+`","token_type":"bearer","expires_in":`+life+`}`)
}

var grant = Grant{TenantID: [16]byte{1}, TokenURL: "https://id.example/token", ClientID: "a:b", ClientSecret: "s3cr&t", Scopes: []string{"read", "write"}, Audience: "https://api.example"}

// TestAskingFollowsTheRFC sends real requests through the guarded client.
func TestAskingFollowsTheRFC(t *testing.T) {
	t.Parallel()
	type seen struct {
		header http.Header
		form   url.Values
	}
	var requests []seen
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(raw))
		requests = append(requests, seen{r.Header, form})
		if form.Get("client_secret") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`)
	}))
	defer target.Close()
	client := egress.New(egress.Config{Rules: egress.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	defer client.Close()
	cache := New(client)
	defer cache.Close()
	g := grant
	g.TokenURL = target.URL + "/token"

	got, err := cache.Token(t.Context(), g)

	require.NoError(t, err)
	require.Equal(t, "t1", got)
	require.Len(t, requests, 2)
	require.Equal(t, "application/x-www-form-urlencoded", requests[0].header.Get("Content-Type"))
	user, password, _ := (&http.Request{Header: requests[0].header}).BasicAuth()
	require.Equal(t, "a%3Ab", user)
	require.Equal(t, "s3cr%26t", password)
	require.Equal(t, url.Values{"grant_type": {"client_credentials"}, "scope": {"read write"}, "audience": {"https://api.example"}}, requests[0].form)
	require.Empty(t, requests[1].header.Get("Authorization"))
	require.Equal(t, "a:b", requests[1].form.Get("client_id"))
	require.Equal(t, "s3cr&t", requests[1].form.Get("client_secret"))

	cache.Reject(g, "t1")
	_, err = cache.Token(t.Context(), g)
	require.NoError(t, err)
	require.Len(t, requests, 3, "the place that the server wants the credentials in is remembered")
}

func TestATokenIsGotOnceForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{token("t1", "3600")}, delay: time.Second}
		cache := New(s)
		defer cache.Close()
		var wait sync.WaitGroup
		var good atomic.Int32
		for range 100 {
			wait.Go(func() {
				if got, err := cache.Token(t.Context(), grant); err == nil && got == "t1" {
					good.Add(1)
				}
			})
		}
		wait.Wait()
		require.EqualValues(t, 100, good.Load())
		require.Equal(t, 1, s.count())
	})
}

func TestGrantsDoNotShareTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{token("t1", "3600")}}
		cache := New(s)
		defer cache.Close()
		others := []Grant{grant, grant, grant, grant, grant, grant, grant}
		others[1].TenantID = [16]byte{2}
		others[2].ClientSecret = "rotated"
		others[3].Scopes = []string{"read"}
		others[4].Scopes = []string{"readwrite"}
		others[5].Audience = "another"
		others[6].ClientID, others[6].ClientSecret = grant.ClientID+grant.ClientSecret[:1], grant.ClientSecret[1:]
		for i, g := range others {
			_, err := cache.Token(t.Context(), g)
			require.NoError(t, err)
			require.Equal(t, i+1, s.count())
		}
	})
}

// TestATokenIsRenewedBeforeItsEnd: an aging token is returned at once, and one request for a new
// one goes out.
func TestATokenIsRenewedBeforeItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{token("t1", "1000"), token("t2", "1000")}}
		cache := New(s)
		defer cache.Close()
		ask := func() string {
			got, err := cache.Token(t.Context(), grant)
			require.NoError(t, err)
			return got
		}
		require.Equal(t, "t1", ask())
		s.delay = time.Second
		time.Sleep(690 * time.Second)
		ask()
		require.Equal(t, 1, s.count(), "too early")
		time.Sleep(110 * time.Second)
		before := time.Now()
		require.Equal(t, "t1", ask())
		require.Equal(t, "t1", ask())
		require.Zero(t, time.Since(before), "nobody waits")
		time.Sleep(2 * time.Second)
		require.Equal(t, "t2", ask())
		require.Equal(t, 2, s.count())
	})
}

// TestAServerThatFailsIsLeftAlone: the failure of a token server is returned at once to later
// callers, and the waits double. A valid token outlives the failures.
func TestAServerThatFailsIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{answered(500, "<html>no s3cr&t</html>")}}
		cache := New(s)
		defer cache.Close()
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
			for range 3 {
				_, err := cache.Token(t.Context(), grant)
				require.EqualError(t, err, "getting an access token: the token server answered 500")
			}
			require.Equal(t, i+1, s.count())
			time.Sleep(wait - time.Millisecond)
			_, err := cache.Token(t.Context(), grant)
			require.Error(t, err)
			require.Equal(t, i+1, s.count(), "not before %s", wait)
			time.Sleep(time.Millisecond)
		}
		s.answers = []egress.Response{token("t1", "1000")}
		got, err := cache.Token(t.Context(), grant)
		require.NoError(t, err)
		require.Equal(t, "t1", got)

		s.fault = errors.New("away")
		time.Sleep(900 * time.Second)
		for range 5 {
			got, err = cache.Token(t.Context(), grant)
			require.NoError(t, err)
			require.Equal(t, "t1", got)
		}
		time.Sleep(100 * time.Second)
		_, err = cache.Token(t.Context(), grant)
		require.ErrorContains(t, err, "away")
	})
}

func TestRefusalReturnsItsCode(t *testing.T) {
	t.Parallel()
	wait := answered(429, "")
	wait.Header.Set("Retry-After", "20")
	for name, tc := range map[string]struct {
		answer egress.Response
		want   string
	}{
		"Client":    {answered(401, `{"error":"invalid_client","error_description":"s3cr&t"}`), "the token server answered 401, invalid_client"},
		"Scope":     {answered(400, `{"error":"invalid_scope"}`), "the token server answered 400, invalid_scope"},
		"Own":       {answered(400, `{"error":"s3cr&t"}`), "the token server answered 400"},
		"TooMany":   {wait, "the token server answered 429"},
		"NoJSON":    {answered(200, "s3cr&t"), "without a JSON document"},
		"NoToken":   {answered(200, `{"error":"x"}`), "without an access_token"},
		"BadToken":  {answered(200, `{"access_token":"a b"}`), "without an access_token"},
		"LineBreak": {answered(200, `{"access_token":"a\r\nX: y"}`), "without an access_token"},
		"LongToken": {token(strings.Repeat("x", 8<<10), "1"), "without an access_token"},
		"Type":      {answered(200, `{"access_token":"a","token_type":"mac"}`), "another type than Bearer"},
		"Truncated": {egress.Response{StatusCode: 200, Truncated: true, Body: []byte(`{"access_token":"a"}`)}, "at most 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{answers: []egress.Response{tc.answer}}
				cache := New(s)
				defer cache.Close()
				_, err := cache.Token(t.Context(), grant)
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), "s3cr&t")
				if name == "TooMany" {
					time.Sleep(19 * time.Second)
					_, err = cache.Token(t.Context(), grant)
					require.Error(t, err)
					require.Equal(t, 1, s.count(), "the server asked for 20 s")
				}
			})
		})
	}
}

func TestLivesAreBounded(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]time.Duration{
		"": assumedLife, "null": assumedLife, "-5": assumedLife, `"600"`: 10 * time.Minute, "60.5": 60500 * time.Millisecond, "1e300": longestLife, "0.001": time.Second, `{"a":1}`: assumedLife,
	} {
		require.Equal(t, want, lifeOf([]byte(raw)), raw)
	}
}

// TestARejectedTokenIsReplaced: a newer one stays.
func TestARejectedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{token("t1", "1000"), token("t2", "1000"), token("t3", "1000")}}
		cache := New(s)
		defer cache.Close()
		for _, want := range []string{"t1", "t2"} {
			got, err := cache.Token(t.Context(), grant)
			require.NoError(t, err)
			require.Equal(t, want, got)
			cache.Reject(grant, "t1")
		}
		got, err := cache.Token(t.Context(), grant)
		require.NoError(t, err)
		require.Equal(t, "t2", got)
	})
}

// TestTargetsThatRefuseEveryTokenDoNotPressTheServer has a run every 100 ms for a minute, each of
// which ends with a 401.
func TestTargetsThatRefuseEveryTokenDoNotPressTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{token("t1", "1000"), token("t2", "1000"), token("t3", "1000"), token("t4", "1000"), token("t5", "1000"), token("t6", "1000"), token("t7", "1000"), token("t8", "1000")}}
		cache := New(s)
		defer cache.Close()
		seen := map[string]bool{}
		for range 600 {
			got, err := cache.Token(t.Context(), grant)
			require.NoError(t, err)
			seen[got] = true
			cache.Reject(grant, got)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, 7, s.count(), "the first at once, then one every ten seconds")
		require.Len(t, seen, 7)
	})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []egress.Response{token("t1", "1000")}, delay: time.Hour}
		cache := New(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		before := time.Now()
		_, err := cache.Token(ctx, grant)
		require.ErrorContains(t, err, "did not answer in time")
		require.Equal(t, time.Second, time.Since(before))
		cache.Close() // Ends the request and waits for it.
		_, err = cache.Token(t.Context(), grant)
		require.Error(t, err)
		require.Equal(t, 1, s.count())
	})
}

func TestUnusedGrantsAreEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := New(&server{answers: []egress.Response{token("t1", "1000")}})
		defer cache.Close()
		now := time.Now()
		for i := range maxGrants + 10 {
			cache.entry(key{byte(i >> 16), byte(i >> 8), byte(i)}, now.Add(time.Duration(i)))
		}
		require.Len(t, cache.grants, maxGrants)
		require.NotContains(t, cache.grants, key{0, 0, 9})
		require.Contains(t, cache.grants, key{0, 0, 10})
	})
}
