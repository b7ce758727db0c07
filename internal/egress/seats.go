package egress

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// knownHosts is about how many hosts without a call in progress are remembered, to spare the memory manager.
const knownHosts = 4096

// hostPort names a server as calls are counted: whatever protocol, connection or tenant leads there.
type hostPort struct {
	host string
	port uint16
}

// Server names the server that target leads to, as requests under way are counted: however the URL spells it, be it by case, by a dot at
// the end of the name or by a port that its scheme implies. It is empty where target is not a URL.
func Server(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	at := serverOf(u)
	return net.JoinHostPort(at.host, strconv.Itoa(int(at.port)))
}

// serverOf returns the server that u leads to, by whatever spelling.
func serverOf(u *url.URL) hostPort {
	host := normalName(u.Hostname())
	if strings.Contains(host, ":") {
		host = hostKey(host)
	}
	return hostPort{host: host, port: portNumber(u)}
}

// seats bound how many requests to one server are under way at once. Requests that find none wait in the order in which they came.
type seats struct {
	limit int // zero: no bound

	mu    sync.Mutex
	hosts map[hostPort]*bench
}

// bench is the seats of one server.
type bench struct {
	taken   int
	waiting []chan struct{} // one for each that waits; closed to hand over a seat
}

func newSeats(limit int) *seats { return &seats{limit: limit, hosts: make(map[hostPort]*bench)} }

// sit takes a seat at the server, or waits for one until ctx ends.
func (s *seats) sit(ctx context.Context, at hostPort) error {
	if s.limit <= 0 {
		return nil
	}
	s.mu.Lock()
	b := s.hosts[at]
	if b == nil {
		s.forget()
		b = new(bench)
		s.hosts[at] = b
	}
	if b.taken < s.limit {
		b.taken++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	b.waiting = append(b.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		s.giveUp(at, turn)
		return &fault{reason: Timeout, err: errBusyHost}
	}
}

// rise gives a seat back, or to the first who waits.
func (s *seats) rise(at hostPort) {
	if s.limit <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(s.hosts[at])
}

// pass hands the seat of somebody who leaves to whoever waits. The caller holds mu.
func (s *seats) pass(b *bench) {
	if len(b.waiting) == 0 {
		b.taken--
		return
	}
	close(b.waiting[0])
	b.waiting = b.waiting[1:]
}

// giveUp takes turn out of the queue; where it has been called meanwhile, its seat goes to the next.
func (s *seats) giveUp(at hostPort, turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.hosts[at]
	if i := slices.Index(b.waiting, turn); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		return
	}
	s.pass(b)
}

// forget drops servers without a call once there are many. The caller holds mu.
func (s *seats) forget() {
	if len(s.hosts) < knownHosts {
		return
	}
	for at, b := range s.hosts {
		if b.taken == 0 {
			delete(s.hosts, at)
		}
	}
}
