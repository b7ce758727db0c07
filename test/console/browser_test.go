package console

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

func TestMain(m *testing.M) {
	waittest.Together(4)
	code := m.Run()
	closeChromium()
	os.Exit(code)
}

// chromium returns the path of the browser, or skips the test.
func chromium(t *testing.T) string {
	t.Helper()
	// The headless shell comes first, because the whole browser takes more than twice the processor
	// time: it draws its own window too.
	for _, name := range []string{os.Getenv("RUBATO_CHROMIUM"), "chromium-headless-shell", "headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if found, err := exec.LookPath(name); err == nil && name != "" {
			return found
		}
	}
	const hint = "no Chromium is found: install it (Debian: apt-get install chromium-headless-shell), or name it by RUBATO_CHROMIUM"
	if os.Getenv("CI") != "" {
		require.FailNow(t, hint)
	}
	t.Skip("NOT TESTED: " + hint) //nolint:forbidigo // A developer's machine need not have a browser; CI has one.
	return ""
}

// shared is the one Chromium of the test binary, because a start of Chromium takes seconds of
// processor time. Browser contexts isolate the tests: each has cookies and storage of its own.
var shared struct { //nolint:gochecknoglobals // It lives as long as the test binary.
	once   sync.Once
	ctx    context.Context //nolint:containedctx // It is the browser: chromedp hands it around so.
	cancel context.CancelFunc
	err    error
}

// startChromium starts the browser of the test binary.
func startChromium(program string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 { // Chromium's sandbox does not work for root.
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	shared.cancel = cancel
	shared.ctx, _ = chromedp.NewContext(ctx) //nolint:fatcontext // The one browser of the test binary.
	shared.err = chromedp.Do(shared.ctx)
}

// closeChromium ends the browser of the test binary, if one was started, and removes its profile.
func closeChromium() {
	if shared.ctx != nil {
		_ = chromedp.Cancel(shared.ctx)
		shared.cancel()
	}
}

// browser returns a browser context of the test's own, which ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	program := chromium(t)
	shared.once.Do(func() { startChromium(program) })
	require.NoError(t, shared.err, "starting %s", program)
	ctx, cancel := chromedp.NewContext(shared.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}
