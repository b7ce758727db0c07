// Package waittest waits in tests for a condition or a message. A wait ends by the event. Its only limit is the deadline of the
// test binary, because no shorter time holds on a machine that runs other programs too.
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
	// Conditions are looked at often at first, because most become true soon. The pauses double up to the longest, so that many
	// waits beside each other leave the processor to what they wait for.
	firstPause   = time.Millisecond
	longestPause = 20 * time.Millisecond

	// unbounded is the limit of a wait in a test binary without a deadline: that of `go test -timeout 0`.
	unbounded = 10 * time.Minute
)

// Limit returns how long a wait may take from now on: half of the time until the deadline of the test binary, which is 10 minutes
// after its start by default. The other half remains for the tests that follow a failed one, and for cleanups.
func Limit(tb testing.TB) time.Duration {
	tb.Helper()
	if t, ok := tb.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, set := t.Deadline(); set {
			return time.Until(deadline) / 2
		}
	}
	return unbounded
}

// Together lets n tests of a binary run at once, unless -parallel says otherwise. It is for tests that wait more than they compute, and
// belongs into TestMain before the run.
func Together(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // Every test binary has the flag.
	}
}

// Context returns the context of the test with the limit of a wait.
func Context(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Limit(tb))
	tb.Cleanup(cancel)
	return ctx
}

// Until waits until a condition holds. It looks at once, and again after pauses, in the goroutine of the test. At the limit it
// fails the test with the message, a format and its arguments.
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

// Receive returns the next value of a channel, or its zero value once the channel is closed. At the limit it fails the test with
// the message, a format and its arguments.
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

// formatted returns a message of a caller as the end of a sentence.
func formatted(message []any) string {
	if len(message) == 0 {
		return ""
	}
	format, _ := message[0].(string)
	return ": " + fmt.Sprintf(format, message[1:]...)
}
