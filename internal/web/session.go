package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/errs"
	"rubato/internal/forwarded"
)

const (
	// sessionTime is the lifetime of a session: a working day.
	sessionTime = 12 * time.Hour

	sessionCookie = "rubato_session"
	// secureCookie is the name of the cookie over https. Browsers accept the prefix __Host- only
	// from this host.
	secureCookie = "__Host-rubato_session"
)

// sessionHash names a session.
type sessionHash = [sha256.Size]byte

// Ticket lets its holder in once. It is safe for concurrent use.
type Ticket struct {
	secret string
	key    [sha256.Size]byte

	mu   sync.Mutex
	used bool
}

// NewTicket returns a ticket that opens one session for an API key.
func NewTicket(key string) *Ticket {
	return &Ticket{secret: strings.ToLower(rand.Text()), key: auth.Hash(key)}
}

// Path returns what to open in a browser, below the base URL of the server.
func (t *Ticket) Path() string { return "/console/enter?ticket=" + t.secret }

// redeem checks the secret of an unused ticket and calls letIn. It reports whether the secret was
// valid. A ticket is used up once letIn has succeeded.
func (t *Ticket) redeem(secret string, letIn func() error) (valid bool, err error) {
	if t == nil || subtle.ConstantTimeCompare([]byte(secret), []byte(t.secret)) == 0 {
		return false, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used {
		return false, nil
	}
	err = letIn()
	t.used = err == nil
	return true, err
}

// signedIn requires a session. Other requests are redirected to the sign-in page, which leads back.
func (s *Server) signedIn(next handle) handle {
	return func(v *pageRequest) error {
		err := v.identify()
		if errs.CodeOf(err) == errs.Unauthorized {
			return v.askToSignIn()
		}
		if err != nil {
			return err
		}
		return next(v)
	}
}

// permitted refuses sessions without the scope write before the form is read, because the mistakes
// in a form must not hide that its sender may not send it at all.
func permitted(next handle) handle {
	return func(v *pageRequest) error {
		if !v.who.May(auth.Write) {
			return forbidden()
		}
		return next(v)
	}
}

// identify finds the principal of the session. The error is an [errs.Unauthorized] without a
// session, or if it has expired.
func (v *pageRequest) identify() error {
	nobody := errs.New(errs.Unauthorized, "", "sign in first")
	cookie, err := v.r.Cookie(v.cookieName())
	if err != nil {
		return nobody
	}
	v.hash = sha256.Sum256([]byte(cookie.Value))
	return v.recognize()
}

// recognize asks again whether the session holds, and whether its key is still in force.
func (v *pageRequest) recognize() error {
	key, err := v.sessions.Find(v.r.Context(), v.hash)
	if errs.CodeOf(err) == errs.NotFound && err != nil {
		return errs.New(errs.Unauthorized, "", "the session has expired")
	}
	if err != nil {
		return err
	}
	v.who, err = v.auth.Recognize(v.r.Context(), key)
	return err
}

// askToSignIn sends a visitor to the sign-in page.
func (v *pageRequest) askToSignIn() error {
	if v.streams() {
		return v.over()
	}
	if v.fragment() && v.r.Method == http.MethodPost { // A redirect would lose the typed input.
		return v.html(http.StatusUnauthorized, signedOutNotice())
	}
	back := v.r.URL.RequestURI()
	if v.r.Method != http.MethodGet || v.fragment() {
		back = "/"
		if current, err := url.Parse(v.r.Header.Get("HX-Current-URL")); err == nil && v.fragment() {
			back = current.RequestURI()
		}
	}
	path := "/console/signin"
	if back = local(back); back != "/" {
		path += "?to=" + url.QueryEscape(back)
	}
	return v.seeOther(path)
}

// local returns a path of this server, so that a redirect cannot lead to another site.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.Contains(path, `\`) ||
		strings.HasPrefix(path, "/console/signin") || strings.HasPrefix(path, "/console/enter") || strings.HasSuffix(u.Path, "/live") {
		return "/"
	}
	return path
}

func (v *pageRequest) signInPage() error {
	to := local(v.value("to"))
	switch err := v.identify(); {
	case err == nil:
		return v.seeOther(to)
	case errs.CodeOf(err) != errs.Unauthorized:
		return v.askAgain(to, err)
	}
	return v.askForKey(http.StatusOK, to, "")
}

// askForKey shows the sign-in page with the reason of the refusal.
func (v *pageRequest) askForKey(status int, to, refused string) error {
	return v.html(status, signInPage(v.frame(page{title: "Sign in"}), to, refused))
}

// askAgain shows the sign-in page if the check of a key failed, because the key was neither
// accepted nor refused.
func (v *pageRequest) askAgain(to string, err error) error {
	problem := v.report(err)
	return v.askForKey(int(problem.Status), to, sentence(problem.Detail))
}

// signIn opens a session for an API key with the scope read.
func (v *pageRequest) signIn() error {
	to := local(v.value("to"))
	who, err := v.auth.AuthenticateFrom(v.r.Context(), v.value("key"), forwarded.Client(v.r, v.proxies))
	if throttled, is := errors.AsType[*auth.ThrottledError](err); is {
		seconds := strconv.Itoa(throttled.Seconds())
		v.w.Header().Set("Retry-After", seconds)
		return v.askForKey(http.StatusTooManyRequests, to, "Too many failed attempts. Try again in "+seconds+" s.")
	}
	refused := ""
	switch {
	case errs.CodeOf(err) == errs.Unauthorized:
		refused = "This key is invalid. Keys begin with rbt_ unless the operator chose them."
	case err != nil:
		return v.askAgain(to, err)
	case !who.May(auth.Read):
		refused = "This key has no scope that allows read access."
	}
	if refused != "" {
		return v.askForKey(http.StatusUnauthorized, to, refused)
	}
	if err := v.open(auth.Hash(v.value("key"))); err != nil {
		return v.askAgain(to, err)
	}
	return v.seeOther(to)
}

// enter opens a session for the holder of a ticket.
func (v *pageRequest) enter() error {
	valid, err := v.ticket.redeem(v.value("ticket"), func() error { return v.open(v.ticket.key) })
	switch {
	case err != nil:
		return err
	case valid:
		return v.seeOther("/")
	}
	if v.identify() == nil { // The same browser has a session already.
		return v.seeOther("/")
	}
	return v.askForKey(http.StatusForbidden, "/", "This link was already used, or belongs to an earlier start. Sign in with the key.")
}

// open opens a session for a key and hands its secret to the browser.
func (v *pageRequest) open(key [sha256.Size]byte) error {
	secret := rand.Text() + rand.Text()
	if err := v.sessions.Open(v.r.Context(), sha256.Sum256([]byte(secret)), key, sessionTime); err != nil {
		return err
	}
	v.setCookie(secret, int(sessionTime.Seconds()))
	return nil
}

func (v *pageRequest) signOut() error {
	if err := v.sessions.Close(v.r.Context(), v.hash); err != nil {
		return err
	}
	v.setCookie("", -1)
	return v.seeOther("/console/signin")
}

func (v *pageRequest) setCookie(value string, maxAge int) {
	http.SetCookie(v.w, &http.Cookie{ //nolint:gosec // Secure where the browser came by https: over http it would lose the cookie.
		Name:     v.cookieName(),
		Value:    value,
		Path:     "/",
		MaxAge:   maxAge,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   v.secure(),
	})
}

func (v *pageRequest) cookieName() string {
	if v.secure() {
		return secureCookie
	}
	return sessionCookie
}

// secure reports whether the browser came by https, here or at a proxy before us. A false claim
// affects only the client's own cookie.
func (v *pageRequest) secure() bool {
	return v.r.TLS != nil || strings.EqualFold(v.r.Header.Get("X-Forwarded-Proto"), "https")
}

// forbidden returns the error of a page that needs the scope write.
func forbidden() error {
	return &client.Problem{
		Status: http.StatusForbidden,
		Title:  "Forbidden",
		Code:   "insufficient_scope",
		Detail: "this needs a key with the scope " + string(auth.Write),
	}
}
