package egress

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Server names the server that target leads to, as requests under way are counted: however the URL spells it, be it by case, by a dot at
// the end of the name or by a port that its scheme implies. It is empty where target is not a URL.
func Server(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return serverOf(u)
}

// serverOf returns the server that u leads to, by whatever spelling.
func serverOf(u *url.URL) string {
	host := normalName(u.Hostname())
	if strings.Contains(host, ":") {
		host = hostKey(host)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(portNumber(u))))
}

// Place is the right to have one request in flight to one host and port, whatever protocol and connection it uses. It is used by one
// goroutine at a time.
type Place interface {
	// Move takes the place at a server, named as [Server] does, and gives back the one at another server. It waits until ctx ends.
	Move(ctx context.Context, server string) error
	// Release gives the place back. It may be called again.
	Release()
}

// unboundedPlace is the place of clients without a bound.
type unboundedPlace struct{}

// Move does nothing.
func (unboundedPlace) Move(context.Context, string) error { return nil }

// Release does nothing.
func (unboundedPlace) Release() {}

// placeOf returns a place of a tenant that is held nowhere yet.
func (c *Client) placeOf(tenant [16]byte) Place {
	if c.places == nil {
		return unboundedPlace{}
	}
	return c.places(tenant)
}
