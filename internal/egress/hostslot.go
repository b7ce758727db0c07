package egress

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Server returns the host and port of target as the key of its semaphore. Spellings of the same
// server have the same key: letter case, a final dot and the default port of the scheme do not
// matter. It returns an empty string if target is not a URL.
func Server(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return serverOf(u)
}

// serverOf returns the host and port of u in normal form.
func serverOf(u *url.URL) string {
	host := normalName(u.Hostname())
	if strings.Contains(host, ":") {
		host = hostKey(host)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(portNumber(u))))
}

// HostSlot is a slot of the semaphore for requests in flight per host and port, over all protocols
// and connections. It is not safe for concurrent use.
type HostSlot interface {
	// Move acquires a slot for a server, in the form of [Server], and releases the slot of another
	// server. It blocks until a slot is free or ctx ends.
	Move(ctx context.Context, server string) error
	// Release releases the slot. It is idempotent.
	Release()
}

// unboundedSlot is the HostSlot of clients without a bound.
type unboundedSlot struct{}

// Move does nothing.
func (unboundedSlot) Move(context.Context, string) error { return nil }

// Release does nothing.
func (unboundedSlot) Release() {}

// placeOf returns a HostSlot for a tenant that holds no slot yet.
func (c *Client) hostSlotOf(tenant [16]byte) HostSlot {
	if c.hostSlots == nil {
		return unboundedSlot{}
	}
	return c.hostSlots(tenant)
}
