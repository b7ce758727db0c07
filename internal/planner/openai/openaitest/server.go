package openaitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Call is one request to the server.
type Call struct {
	N       int // counts from 0 over the life of the server
	At      time.Time
	Header  http.Header
	Body    []byte
	Request Request
}

// Answer writes a response. It returns when the response is complete or the client has
// disconnected.
type Answer func(w http.ResponseWriter, r *http.Request)

// Script selects the response to a call. It is called from several goroutines.
type Script func(Call) Answer

// Server is a chat completions service on loopback.
type Server struct {
	http   *httptest.Server
	script Script

	mu     sync.Mutex
	calls  []Call
	broken []string
}

// New starts a server that runs until the test ends. The test fails if a strict service would
// reject one of its requests.
func New(tb testing.TB, script Script) *Server {
	tb.Helper()
	s := &Server{script: script}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		s.http.CloseClientConnections() // ends responses that hang
		s.http.Close()
		for _, text := range s.broken {
			tb.Errorf("a strict service refuses this request: %s", text)
		}
	})
	return s
}

// URL returns the base URL, to which clients add /chat/completions.
func (s *Server) URL() string { return s.http.URL + "/v1" }

// Calls returns every request so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Script replaces the script for the requests to come.
func (s *Server) Script(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client disconnected
	}
	call := Call{
		At:     time.Now(),
		Header: r.Header.Clone(),
		Body:   body,
	}
	problem := s.read(r, &call)
	script := s.note(&call, problem)
	if problem != nil {
		Status(http.StatusBadRequest, Problem("invalid_request_error", problem.Error()))(w, r)
		return
	}
	script(call)(w, r)
}

// read decodes the request, and returns the error of a strict service.
func (s *Server) read(r *http.Request, call *Call) error {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		return fmt.Errorf("%s %s is not POST /v1/chat/completions", r.Method, r.URL.Path)
	}
	if err := json.Unmarshal(call.Body, &call.Request); err != nil {
		return fmt.Errorf("the body is no request: %w", err)
	}
	return call.Request.check()
}

// note records and numbers the call, and returns the current script.
func (s *Server) note(call *Call, problem error) Script {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.N = len(s.calls)
	s.calls = append(s.calls, *call)
	if problem != nil {
		s.broken = append(s.broken, problem.Error())
	}
	return s.script
}
