package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthTimeout is how long a program may take to say that it is ready.
const healthTimeout = 2 * time.Second

// CheckReady asks the program whose admin listener has an address whether it is ready. It is what a container without a shell runs
// as its health check. The error says why not.
func CheckReady(ctx context.Context, adminListen string) error {
	if _, port, err := net.SplitHostPort(adminListen); err != nil || port == "0" {
		return fmt.Errorf("asking whether the program is ready: the admin listener %q has no fixed port", adminListen)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	status, text, err := probe(ctx, "http://"+reachable(adminListen)+"/readyz")
	switch {
	case err != nil:
		return fmt.Errorf("asking whether the program is ready: %w", err)
	case status != http.StatusOK:
		return fmt.Errorf("%s", text)
	}
	return nil
}

// probe gets a URL and returns the first words of the answer.
func probe(ctx context.Context, url string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true // One question, one connection: nothing stays behind.
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	return res.StatusCode, strings.TrimSpace(string(body)), err
}
