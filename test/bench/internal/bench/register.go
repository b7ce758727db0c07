package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rubato/client"
)

const (
	// adminKey is the API key of a bench. It is not secret, because the installation is local and
	// short-lived.
	adminKey = "an-admin-key-of-the-bench"
	// registerConns is the number of connections for registrations that are not measured.
	registerConns = 32
	// apiTimeout is the timeout of one API call.
	apiTimeout = 30 * time.Second
)

// registrar registers endpoints over the API.
type registrar struct {
	api *client.Client
	// bulk is the client for calls that exceed apiTimeout.
	bulk     *client.Client
	conns    int
	progress *Progress
}

func newRegistrar(url, key string, conns int, p *Progress) (*registrar, error) {
	transport := &http.Transport{
		MaxIdleConns:        conns,
		MaxIdleConnsPerHost: conns,
		MaxConnsPerHost:     conns,
	}
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}
	r := &registrar{conns: conns, progress: p}
	for _, c := range []struct {
		client  **client.Client
		timeout time.Duration
	}{{&r.api, apiTimeout}, {&r.bulk, 0}} {
		made, err := client.NewClient(url, client.WithHTTPClient(&http.Client{Transport: transport, Timeout: c.timeout}),
			client.WithRequestEditorFn(authorize))
		if err != nil {
			return nil, fmt.Errorf("making a client of %s: %w", url, err)
		}
		*c.client = made
	}
	return r, nil
}

// registered is the result of registering endpoints.
type registered struct {
	ids  []string        // in the order of the specifications
	took []time.Duration // latency of each call
	span time.Duration   // of all calls
}

// register registers n endpoints one by one. specOf returns their specifications.
func (r *registrar) register(ctx context.Context, n int, specOf func(n int) client.EndpointSpec) (registered, error) {
	out := registered{ids: make([]string, n), took: make([]time.Duration, n)}
	var next, done atomic.Int64
	var bars sync.Mutex
	begun := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range min(r.conns, n) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				sent := time.Now()
				id, err := r.create(ctx, specOf(i))
				if err != nil {
					return fmt.Errorf("registering endpoint %d of %d: %w", i+1, n, err)
				}
				out.ids[i], out.took[i] = id, time.Since(sent)
				if count := int(done.Add(1)); count%100 == 0 {
					bars.Lock()
					r.progress.bar("endpoints registered", count, n)
					bars.Unlock()
				}
			}
			return nil
		})
	}
	err := group.Wait()
	out.span = time.Since(begun)
	return out, err
}

func (r *registrar) create(ctx context.Context, spec client.EndpointSpec) (string, error) {
	res, err := r.api.CreateEndpoint(ctx, spec) //nolint:bodyclose // readAnswer closes it.
	if err != nil {
		return "", err
	}
	var e struct {
		ID string `json:"id"`
	}
	return e.ID, readAnswer(res, &e)
}

// readAnswer reads an answer to its end, so that its connection returns to the pool.
func readAnswer(res *http.Response, v any) error {
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("reading the answer of the API: %w", err)
	}
	if err := client.Refused(res, text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("reading the answer of the API: %w", err)
	}
	return nil
}
