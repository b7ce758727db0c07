package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The groups of paths of a sink. The first letter of a path selects the behaviour, and separates
// the arrivals.
const (
	groupPlain = 'p' // answered at once
	groupHang  = 'h' // never answered
	groupOther = 'o' // answered at once, counted apart
	groupWarm  = 'w' // answered at once, before what is measured
	groupIdle  = 'i' // registered, and never called
)

// path returns the path of an endpoint of a group.
func path(group byte, n int) string { return "/" + string(group) + "/" + strconv.Itoa(n) }

// arrival is a request that reached the sink.
type arrival struct {
	Group byte
	N     uint32 // number of the endpoint or job
	Run   uint64 // hash of the run's ID, equal for duplicates
	At    int64  // when its first line was read, Unix nanoseconds
	Due   int64  // Rubato-Scheduled-For, Unix nanoseconds; 0: no such header
}

// lag returns the delay of the request after its due time.
func (a arrival) lag() time.Duration { return time.Duration(a.At - a.Due) }

// sink is a target that answers at once and records arrivals. It implements HTTP/1.1 itself,
// because it shares the machine with the programs under test: it needs a fraction of the CPU time
// of net/http, and takes the time closer to the wire.
type sink struct {
	count atomic.Int64

	mu    sync.Mutex
	conns map[*sinkConn]struct{} // open connections
	kept  []arrival              // of closed connections
}

// sinkConn is one connection. It has its own list of arrivals, so that connections do not contend
// for a lock.
type sinkConn struct {
	net.Conn

	mu       sync.Mutex
	arrivals []arrival
}

func newSink() *sink { return &sink{conns: map[*sinkConn]struct{}{}} }

// serve answers connections until the listener is closed.
func (s *sink) serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", err)
		}
		go s.serveConn(ctx, &sinkConn{Conn: conn})
	}
}

func (s *sink) serveConn(ctx context.Context, c *sinkConn) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		s.kept = append(s.kept, c.arrivals...)
	}()
	in := bufio.NewReaderSize(c, 4<<10)
	for {
		a, err := readArrival(in)
		if err != nil {
			return
		}
		c.mu.Lock()
		c.arrivals = append(c.arrivals, a)
		c.mu.Unlock()
		s.count.Add(1)
		if a.Group == groupHang {
			_, _ = in.ReadByte() // until the client closes the connection
			return
		}
		if _, err := c.Write(sinkAnswer); err != nil {
			return
		}
	}
}

// take returns the arrivals since the last call.
func (s *sink) take() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.kept
	s.kept = nil
	for c := range s.conns {
		c.mu.Lock()
		all = append(all, c.arrivals...)
		c.arrivals = nil
		c.mu.Unlock()
	}
	s.count.Add(-int64(len(all)))
	return all
}

//nolint:gochecknoglobals // Constants that the language has no form for.
var (
	sinkAnswer  = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
	dueHeader   = []byte("Rubato-Scheduled-For:")
	runHeader   = []byte("Rubato-Run-Id:")
	lengthField = []byte("Content-Length:")
)

var errNotHTTP = errors.New("no HTTP request")

// readArrival reads one request with its body. Header names must be spelled as Go's client writes
// them.
func readArrival(in *bufio.Reader) (arrival, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return arrival{}, err
	}
	a := arrival{At: time.Now().UnixNano()}
	_, uri, found := bytes.Cut(line, []byte(" /"))
	if !found || len(uri) < 2 {
		return arrival{}, errNotHTTP
	}
	a.Group, a.N = uri[0], number(uri[2:])
	body := 0
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return arrival{}, err
		}
		switch {
		case len(line) <= 2:
			_, err := in.Discard(body)
			return a, err
		case bytes.HasPrefix(line, dueHeader):
			if a.Due, err = dueOf(line[len(dueHeader):]); err != nil {
				return arrival{}, err
			}
		case bytes.HasPrefix(line, runHeader):
			a.Run = hash(bytes.TrimSpace(line[len(runHeader):]))
		case bytes.HasPrefix(line, lengthField):
			body = int(number(bytes.TrimSpace(line[len(lengthField):])))
		}
	}
}

// number parses the leading digits of a text.
func number(text []byte) (n uint32) {
	for _, digit := range text {
		if digit < '0' || digit > '9' {
			break
		}
		n = n*10 + uint32(digit-'0')
	}
	return n
}

func dueOf(text []byte) (int64, error) {
	due, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	return due.UnixNano(), err
}

// hash is FNV-1a.
func hash(text []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range text {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
