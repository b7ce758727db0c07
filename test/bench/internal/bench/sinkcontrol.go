package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const loopback = "127.0.0.1:0"

// serveSink is the process of the sink. It has one listener for requests and one for the control
// API.
func serveSink(ctx context.Context, tell func(processMessage) error) error {
	var lc net.ListenConfig
	// Every loopback address is a host of the endpoints, see hostAddress.
	target, err := lc.Listen(ctx, "tcp4", "0.0.0.0:0")
	if err != nil {
		return fmt.Errorf("listening for requests: %w", err)
	}
	defer func() { _ = target.Close() }()
	control, err := lc.Listen(ctx, "tcp", loopback)
	if err != nil {
		return fmt.Errorf("listening for the bench: %w", err)
	}
	s := newSink()
	server := &http.Server{Handler: s.control(), ReadHeaderTimeout: time.Second}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.serve(ctx, target) })
	group.Go(func() error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(control); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the bench: %w", err)
		}
		return nil
	})
	if err := tell(processMessage{Target: fmt.Sprintf("http://127.0.0.1:%d", target.Addr().(*net.TCPAddr).Port), //nolint:forcetypeassert // It listens on TCP.
		Control: "http://" + control.Addr().String()}); err != nil {
		return err
	}
	return group.Wait()
}

// control implements the control API of the bench.
func (s *sink) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, s.count.Load())
	})
	mux.HandleFunc("POST /take", func(w http.ResponseWriter, _ *http.Request) {
		out := bufio.NewWriterSize(w, 64<<10)
		var record []byte
		for _, a := range s.take() {
			record = a.append(record[:0])
			_, _ = out.Write(record) // A closed connection needs no answer.
		}
		_ = out.Flush()
	})
	return mux
}

// arrivalSize is the encoded size of an arrival in bytes.
const arrivalSize = 1 + 4 + 8 + 8 + 8

func (a arrival) append(to []byte) []byte {
	to = append(to, a.Group)
	to = binary.LittleEndian.AppendUint32(to, a.N)
	to = binary.LittleEndian.AppendUint64(to, a.Run)
	to = binary.LittleEndian.AppendUint64(to, uint64(a.At))
	return binary.LittleEndian.AppendUint64(to, uint64(a.Due))
}

func arrivalFrom(b []byte) arrival {
	return arrival{
		Group: b[0],
		N:     binary.LittleEndian.Uint32(b[1:]),
		Run:   binary.LittleEndian.Uint64(b[5:]),
		At:    int64(binary.LittleEndian.Uint64(b[13:])),
		Due:   int64(binary.LittleEndian.Uint64(b[21:])),
	}
}

// remoteSink is the bench's client of the sink process.
type remoteSink struct {
	*process
}

// target returns the URL of an endpoint of a group.
func (s remoteSink) target(group byte, n int) string { return s.news.Target + path(group, n) }

// targetAt returns the URL of an endpoint at one of many hosts.
func (s remoteSink) targetAt(host int, group byte, n int) string {
	return strings.Replace(s.target(group, n), "127.0.0.1", hostAddress(livingHosts, host), 1)
}

// livingHosts and deadHosts are the first bytes of the loopback networks of hosts.
const (
	livingHosts = "127.2"
	deadHosts   = "127.1"
)

// hostAddress returns the loopback address of a host, at most 65,536 in a network.
func hostAddress(network string, host int) string {
	return fmt.Sprintf("%s.%d.%d", network, host>>8&255, host&255)
}

// count returns the number of arrivals since the last take.
func (s remoteSink) count(ctx context.Context) (int, error) {
	text, err := s.ask(ctx, http.MethodGet, "/count")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading the sink's count: %w", err)
	}
	return n, nil
}

// take returns the arrivals since the last call.
func (s remoteSink) take(ctx context.Context) ([]arrival, error) {
	text, err := s.ask(ctx, http.MethodPost, "/take")
	if err != nil {
		return nil, err
	}
	list := make([]arrival, 0, len(text)/arrivalSize)
	for ; len(text) >= arrivalSize; text = text[arrivalSize:] {
		list = append(list, arrivalFrom(text))
	}
	return list, nil
}

func (s remoteSink) ask(ctx context.Context, method, path string) ([]byte, error) {
	text, err := fetch(ctx, method, s.news.Control+path)
	if err != nil {
		return nil, fmt.Errorf("asking the sink: %w", err)
	}
	return text, nil
}

// fetch returns the body of a successful answer.
func fetch(ctx context.Context, method, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s: %s", url, res.Status, text)
	}
	return text, err
}
