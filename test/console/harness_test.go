package console

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/app"
	"rubato/internal/app/dev"
	"rubato/internal/config"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/store/pg"
	"rubato/internal/waittest"
)

// The screen sizes of the tests.
type screen struct {
	name          string
	width, height int64
}

var (
	wide  = screen{"wide", 1280, 860} //nolint:gochecknoglobals // Go has no constants of structs.
	phone = screen{"phone", 390, 844} //nolint:gochecknoglobals // As above.
)

// world is a dev server with the endpoints of the demo.
type world struct {
	url, key, link, database string
}

// setup starts a server and lets the demo's endpoints run.
func setup(t *testing.T) *world {
	t.Helper()
	return start(t, true)
}

// start starts a server, with the demo's endpoints or with none at all.
func start(t *testing.T, demo bool) *world {
	t.Helper()
	database := devpgtest.NewDatabase(t, devpgtest.Template{Key: pg.SchemaKey(), Migrate: func(ctx context.Context, url string) error {
		_, err := pg.MigrateUp(ctx, url)
		return err
	}})
	settings, err := config.Load([]string{"DATABASE_URL=" + database, "RUBATO_LISTEN=127.0.0.1:0", "RUBATO_SHUTDOWN_GRACE=1s"}, dev.Defaults())
	require.NoError(t, err)
	ready, ended := make(chan dev.Credentials, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	dir := t.TempDir()
	go func() {
		ended <- dev.Server{
			Settings: settings, DataDir: dir, Demo: demo, Home: dev.FindHome([]string{"HOME=" + dir}), Logger: slog.New(slog.DiscardHandler),
			Ready: func(c dev.Credentials) { ready <- c },
		}.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, app.Interrupted(ctx, <-ended))
	})
	select {
	case c := <-ready:
		return &world{url: c.URL, key: c.Key, link: c.Console, database: database}
	case err := <-ended:
		ended <- nil
		require.FailNow(t, "the server ended before it was ready", "%v", err)
		return nil
	}
}

// api calls the server's API and decodes the answer into out.
func (w *world) api(t *testing.T, method, path string, body, out any) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, bytes.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+w.key)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Less(t, response.StatusCode, 300, "%s %s: %s", method, path, answer)
	if out != nil {
		require.NoError(t, json.Unmarshal(answer, out))
	}
}

// endpoint returns the endpoint with a key.
func (w *world) endpoint(t *testing.T, key string) client.Endpoint {
	t.Helper()
	var list client.EndpointList
	w.api(t, http.MethodGet, "/v1/endpoints?key="+key, nil, &list)
	require.Len(t, list.Items, 1)
	return list.Items[0]
}

// tab is a browser tab that records faults in it.
type tab struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // It is the tab: chromedp hands it around so.
	world  *world
	screen screen

	mu      sync.Mutex
	faults  []string
	refused bool // a step was meant to be refused
}

// open opens a tab on a screen.
func open(in context.Context, t *testing.T, w *world, s screen) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, world: w, screen: s}
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(s.width, s.height)))
	require.NoError(t, chromedp.Listen(ctx, b.note))
	return b
}

// note records faults: script errors, console messages at warning level or above, and requests to
// other hosts.
func (b *tab) note(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + fmt.Sprint(e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			fault = "console: " + string(e.Type)
			for _, a := range e.Args {
				fault += fmt.Sprintf(" %s%s", a.Value, a.Description)
			}
		}
	case *log.EventEntryAdded:
		fault = "log: " + e.Entry.Text + " " + e.Entry.URL
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.world.url+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			fault = "request to " + e.Request.URL
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.refused || !strings.Contains(fault, "the server responded with a status of 4") {
			b.faults = append(b.faults, fault)
		}
	}
}

// clean requires that no fault was recorded so far.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.faults)
}

// forget drops the recorded faults of a step that is refused on purpose. From then on answers with
// a status of 4xx are no faults, because the browser may log one after the page shows it.
func (b *tab) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults, b.refused = nil, true
}

// visit opens a path of the server.
func (b *tab) visit(path string) {
	b.t.Helper()
	target := path
	if !strings.HasPrefix(path, "http") {
		target = b.world.url + path
	}
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.Navigate(target)), target)
}

// eval runs a script in the page.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	require.NoError(b.t, err, script)
	return value
}

// read waits until an expression has a value in the page, and returns that value. An expression
// that is null or throws is evaluated again, because the page may be loading or may be replaced by
// its successor.
func read[T any](b *tab, expression string, options ...chromedp.EvaluateOption) (value T) {
	b.t.Helper()
	waittest.Until(b.t, func() (found bool) {
		var err error
		value, err = chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, options...))
		return err == nil
	}, "%.200s\n%s", expression, text{b})
	return value
}

// await waits until an expression is true in the page. It retries while the page is being replaced.
func (b *tab) await(expression string) {
	b.t.Helper()
	waittest.Until(b.t, func() bool {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && ok
	}, "%s\n%s", expression, text{b})
}

// text is the text of the page for a failure message. It is read only after a wait has failed.
type text struct{ *tab }

// String returns the text of the page.
func (b text) String() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.pathname + "\n" + (document.querySelector('dialog[open]') || document.body).innerText.slice(0, 1500)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// settled waits until the page has its styles. The text of a page can be read before they arrive,
// and measurements without styles would be of a layout that no user sees.
func (b *tab) settled() {
	b.t.Helper()
	b.await("document.readyState === 'complete'")
}

// says waits until the page holds a text.
func (b *tab) says(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// click clicks the element that a selector finds, once it is in view and nothing covers it. The
// search, the check and the click are one step in the page, because a live page may move the
// element between two steps.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`(() => {
		const found = document.querySelector(%q);
		if (!found || found.disabled || document.readyState !== "complete") return false;
		found.scrollIntoView({block: "center", behavior: "instant"});
		const box = found.getBoundingClientRect();
		if (!found.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2))) return false;
		found.click();
		return true })()`, selector))
}

// write replaces the text of a field.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.querySelector(%q) && document.readyState === 'complete'", selector))
	eval[bool](b, fmt.Sprintf(`(() => { const f = document.querySelector(%q); f.focus(); f.value = %q;
		f.dispatchEvent(new Event("input", {bubbles: true})); f.dispatchEvent(new Event("change", {bubbles: true})); return true })()`, selector, text))
}

// shoot saves a screenshot if RUBATO_SCREENSHOTS names a folder, and requires that the page does
// not scroll sideways.
func (b *tab) shoot(name string) {
	b.t.Helper()
	b.settled()
	require.LessOrEqual(b.t, read[int64](b, "document.documentElement.scrollWidth"), b.screen.width, "%s is wider than the screen %s", name, b.screen.name)
	dir := os.Getenv("RUBATO_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(dir, 0o750))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+"-"+b.screen.name+".png"), picture, 0o600))
}

// axe is axe-core 4.14.1 (axe.min.js), compressed by gzip -9 -n. Its license lies beside it.
//
//go:embed testdata/axe.js.gz
var axe []byte

// axeScript returns the script of axe-core.
var axeScript = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // The same for every test.
	reader, err := gzip.NewReader(bytes.NewReader(axe))
	if err != nil {
		return "", err
	}
	script, err := io.ReadAll(reader)
	return string(script), err
})

// accessible requires that axe-core finds no serious violation in the page as it is. The script is
// loaded and run in one evaluation, because a page that reloads between the two would drop it.
func (b *tab) accessible() {
	b.t.Helper()
	b.settled()
	script, err := axeScript()
	require.NoError(b.t, err)
	found := read[[]string](b, script+`; axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations
		.filter(v => v.impact === "serious" || v.impact === "critical")
		.map(v => v.id + ": " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 160) + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise)
	require.Empty(b.t, found, "%s on the screen %s", read[string](b, "location.pathname"), b.screen.name)
}
