package contract

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// guess reports with a wrong token from an address, and returns the status of the answer.
func (w *world) guess(t *testing.T, address string) int {
	t.Helper()
	token := make([]byte, 72)
	_, _ = rand.Read(token)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/callbacks/"+base64.RawURLEncoding.EncodeToString(token),
		bytes.NewReader([]byte(`{"status":"progress"}`)))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Forwarded-For", address)
	response, err := w.client.Do(r)
	if err != nil { // The test has ended.
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// TestGuessesOfTokensBlockNoGenuineReport floods a server with wrong tokens from 200 networks until
// it throttles all addresses. Genuine reports pass meanwhile, from another address and from one of
// those, as behind a load balancer that is no trusted proxy.
func TestGuessesOfTokensBlockNoGenuineReport(t *testing.T) {
	t.Parallel()
	w := setup(t)
	token := w.callback(t, "url")
	var throttled, sent atomic.Int64
	flood := make(chan struct{})
	var guessers sync.WaitGroup
	for g := range 8 {
		guessers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-flood:
					return
				default:
				}
				if w.guess(t, fmt.Sprintf("2001:db8:%d:%d::1", g, i%25)) == http.StatusTooManyRequests {
					throttled.Add(1)
				}
				sent.Add(1)
			}
		})
	}
	defer guessers.Wait()
	defer close(flood)
	for throttled.Load() < 100 {
		w.guess(t, "2001:db8:99:1::1")
	}
	for i := range 32 {
		address := "192.0.2.1"
		if i%2 == 1 {
			address = "2001:db8:0:1::1"
		}
		w.call(t, "POST", "/v1/callbacks/"+token, `{"status":"progress"}`, key(""), header("X-Forwarded-For", address)).is(t, http.StatusOK)
	}
	require.Equal(t, http.StatusTooManyRequests, w.guess(t, "192.0.2.1"), "all addresses are throttled")
	t.Logf("%d guesses were sent, and %d throttled", sent.Load(), throttled.Load())
	w.call(t, "POST", "/v1/callbacks/"+token, `{"status":"succeeded"}`, key(""), header("X-Forwarded-For", "192.0.2.1")).is(t, http.StatusOK)
	w.call(t, "POST", "/v1/callbacks/"+token, `{"status":"succeeded"}`, key(""), header("X-Forwarded-For", "192.0.2.1")).is(t, http.StatusConflict)
}
