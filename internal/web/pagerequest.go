package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/answers"
	"rubato/internal/auth"
	"rubato/internal/errs"
)

const (
	// maxForm bounds the size of a form, in bytes: an endpoint's body is the largest field, 256 KiB
	// before it is encoded.
	maxForm = 1 << 20

	// pageTimeout is the deadline of a page. It equals the deadline of a request to the API.
	pageTimeout = 20 * time.Second

	// retryAfter is the Retry-After header in seconds while the database is unavailable, as in the
	// API.
	retryAfter = "2"

	// refreshAfter is the Refresh header of an error page in seconds, long enough to read the
	// error.
	refreshAfter = "5"

	// tryAgain is the last part of error messages. Live pages omit it, because they retry
	// automatically.
	tryAgain = "; try again"

	fragmentHeader = "HX-Request" // of requests for a part of a page
)

// pageRequest is one request to the console with its principal.
type pageRequest struct {
	*Server

	w    http.ResponseWriter
	r    *http.Request  // with a deadline, except for streams
	sent *http.Request  // without the deadline
	who  auth.Principal // zero: not signed in
	hash sessionHash
}

// wrap adapts a handle to net/http: it bounds the body and the duration of a request, and shows
// errors.
//
//nolint:contextcheck // Pages are rendered with the context of the request.
func (s *Server) wrap(h handle) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &pageRequest{
			Server: s,
			w:      w,
			r:      r,
			sent:   r,
		}
		w.Header().Add("Vary", "Accept-Encoding")
		if answers.AcceptsGzip(r.Header) && !v.streams() {
			packed := answers.NewWriter(w)
			defer func() { _ = packed.Close() }() // A browser that went away needs no answer.
			v.w = packed
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !v.streams() {
			limited, cancel := context.WithTimeout(r.Context(), pageTimeout)
			defer cancel()
			v.r = r.WithContext(limited)
		}
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				v.showError(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := h(v); err != nil {
			v.fail(err)
		}
	})
}

// readForm reads the form that a request sends, and refuses one that cannot be read.
func readForm(next handle) handle {
	return func(v *pageRequest) error {
		if v.r.Method == http.MethodPost && v.r.ParseForm() != nil {
			return &client.Problem{
				Status: http.StatusBadRequest,
				Title:  "Bad Request",
				Detail: "the form cannot be read, or is larger than 1 MiB",
			}
		}
		return next(v)
	}
}

// fragment reports whether a part of a page is asked for.
func (v *pageRequest) fragment() bool { return v.r.Header.Get(fragmentHeader) == "true" }

// show answers with a page in the frame of all pages.
func (v *pageRequest) show(p page, body templ.Component) error {
	return v.html(http.StatusOK, layout(v.frame(p), body))
}

// part answers with a part of a page.
func (v *pageRequest) part(body templ.Component) error { return v.html(http.StatusOK, body) }

// dialog answers with a dialog. Opened by its address, it is a page of its own.
func (v *pageRequest) dialog(title, nav string, body templ.Component) error {
	if v.fragment() {
		return v.part(body)
	}
	return v.show(page{title: title, nav: nav}, standalone(nav, body))
}

// html writes a component as a whole: one that fails half way leaves no half page.
func (v *pageRequest) html(status int, body templ.Component) error {
	var text bytes.Buffer
	if err := body.Render(v.sent.Context(), &text); err != nil { // A timeout can still be reported.
		return fmt.Errorf("writing a page: %w", err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(text.Bytes()) // A browser that went away needs no answer.
	return nil
}

// json answers with the data of a chart.
func (v *pageRequest) json(data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("writing the data of a chart: %w", err)
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, _ = v.w.Write(text) // As above.
	return nil
}

// seeOther sends the browser to another page, by which a form that was sent is done.
func (v *pageRequest) seeOther(path string) error {
	if v.fragment() {
		v.w.Header().Set("HX-Redirect", path)
		v.w.WriteHeader(http.StatusOK)
		return nil
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// frame returns what every page shows around its own.
func (v *pageRequest) frame(p page) page {
	p.who = v.who.Name
	if c, err := v.r.Cookie("rubato_theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		p.theme = c.Value
	}
	return p
}

// left reports whether the client has disconnected.
func (v *pageRequest) left() bool { return v.sent.Context().Err() != nil }

// fail shows an error. After a disconnect of the browser it shows nothing.
func (v *pageRequest) fail(err error) {
	if v.left() && errors.Is(err, context.Canceled) {
		v.logger.DebugContext(v.r.Context(), "page request canceled", "method", v.r.Method, "path", v.r.URL.Path, "error", err)
		return
	}
	v.showError(err)
}

// showError logs an error and shows it as a page, a fragment or plain text, as the request expects.
func (v *pageRequest) showError(err error) {
	problem := v.report(err)
	switch {
	case v.left():
		return
	case v.streams():
		v.refuseStream(problem)
		return
	}
	again := ""
	if problem.Status == http.StatusServiceUnavailable && v.r.Method == http.MethodGet { // A form is never resent automatically.
		again = v.r.URL.RequestURI()
	}
	body := layout(v.frame(page{title: problem.Title}), problemPage(problem, again))
	if v.fragment() {
		body = problemNotice(problem)
	} else if again != "" {
		v.w.Header().Set("Refresh", refreshAfter)
	}
	if err := v.html(int(problem.Status), body); err != nil {
		v.logger.ErrorContext(v.r.Context(), "writing the error page failed", "error", err)
	}
}

// refuseStream sends a live page the reason why it is refused. The page reconnects automatically.
func (v *pageRequest) refuseStream(problem client.Problem) {
	v.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.w.WriteHeader(int(problem.Status))
	_, _ = v.w.Write([]byte(strings.TrimSuffix(problem.Detail, tryAgain))) // A browser that went away needs no answer.
}

// report returns the public part of an error. Server errors are logged here, once.
func (v *pageRequest) report(err error) client.Problem {
	problem := problemOf(err)
	if problem.Status >= http.StatusInternalServerError {
		v.logger.ErrorContext(v.r.Context(), "page failed", "method", v.r.Method, "path", v.r.URL.Path, "error", err)
	}
	if problem.Status == http.StatusServiceUnavailable {
		v.w.Header().Set("Retry-After", retryAfter)
	}
	return problem
}

// problemOf returns the public part of an error.
func problemOf(err error) client.Problem {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return *p
	}
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Code == errs.Unavailable {
		return client.Problem{
			Status: http.StatusServiceUnavailable,
			Title:  "Service Unavailable",
			Detail: e.Message,
		}
	}
	return client.Problem{
		Status: http.StatusInternalServerError,
		Title:  "Internal Server Error",
		Detail: "server error; see the logs",
	}
}

func notFound(detail string) error {
	return &client.Problem{
		Status: http.StatusNotFound,
		Title:  "Not Found",
		Code:   "not_found",
		Detail: detail,
	}
}

// value returns a value of the form or the query, without blanks at its ends.
func (v *pageRequest) value(name string) string { return strings.TrimSpace(v.r.FormValue(name)) }
