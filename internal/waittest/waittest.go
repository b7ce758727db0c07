// Package waittest waits in tests for a condition or a message. A wait ends with the event. Its
// only timeout is the deadline of the test binary, because a shorter timeout would be unreliable on
// a loaded machine.
package waittest

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"
)

const (
	// Conditions are polled often at first, because most become true soon. The pauses double up to
	// longestPause, so that many concurrent waits leave the processor to the tested code.
	firstPause   = time.Millisecond
	longestPause = 20 * time.Millisecond

	// unbounded is the timeout of a wait in a test binary without a deadline: that of `go test
	// -timeout 0`.
	unbounded = 10 * time.Minute
)

// Limit returns the timeout of a wait: half of the time until the deadline of the test binary. That
// deadline is 10 minutes after its start by default. The other half remains for later tests and for
// cleanups.
func Limit(tb testing.TB) time.Duration {
	tb.Helper()
	if t, ok := tb.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, set := t.Deadline(); set {
			return time.Until(deadline) / 2
		}
	}
	return unbounded
}

// Together sets the number of parallel tests of a binary to n, unless -parallel is given. It is for
// tests that wait more than they compute. Call it in TestMain before the tests run.
func Together(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		// Every test binary has the flag.
		panic(err)
	}
}

// Context returns the context of the test with a deadline after Limit.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Limit(tb))
	tb.Cleanup(cancel)
	return ctx
}

// Until waits until a condition holds. It evaluates the condition in the goroutine of the test,
// first at once and then after pauses. After Limit it fails the test with the message, a format and
// its arguments.
func Until(tb testing.TB, holds func() bool, message ...any) {
	tb.Helper()
	pause := firstPause
	for end := time.Now().Add(Limit(tb)); !holds(); pause = min(2*pause, longestPause) {
		if time.Now().After(end) {
			tb.Fatalf("waited in vain%s", formatted(message))
		}
		<-time.After(pause)
	}
}

// Receive returns the next value of a channel, or its zero value if the channel is closed. After
// Limit it fails the test with the message, a format and its arguments.
func Receive[T any](tb testing.TB, from <-chan T, message ...any) T {
	tb.Helper()
	limit := time.NewTimer(Limit(tb))
	defer limit.Stop()
	select {
	case v := <-from:
		return v
	case <-limit.C:
		tb.Fatalf("nothing came%s", formatted(message))
		panic("not reached")
	}
}

// formatted returns the caller's message as the end of a sentence.
func formatted(message []any) string {
	if len(message) == 0 {
		return ""
	}
	format, _ := message[0].(string)
	return ": " + fmt.Sprintf(format, message[1:]...)
}
