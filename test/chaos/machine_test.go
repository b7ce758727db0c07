package chaos

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const (
	// beatEvery is the pause between two commits of a bystander.
	beatEvery = 200 * time.Millisecond

	// usualBeat is the duration of a commit that counts as no stall.
	usualBeat = 50 * time.Millisecond
)

// bystander measures how fast the machine and the Postgres of a scenario serve a program that needs
// little of them: it commits an empty transaction every beatEvery. Other scenarios and compilers
// share the processors, and a bound on the lateness of a start must not fail because of them.
type bystander struct {
	mu     sync.Mutex
	stalls []stall
	late   time.Time // after which the next commit counts as late
}

// stall is the time by which one commit of a bystander was delayed.
type stall struct{ from, to time.Time }

// watch starts a bystander that runs until the test ends.
func watch(t *testing.T, url string) *bystander {
	t.Helper()
	b := &bystander{}
	b.beat()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.run(ctx, url) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return b
}

func (b *bystander) run(ctx context.Context, url string) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		pass(beatEvery)
		for ctx.Err() == nil && !commit(ctx, &conn, url) { // Postgres may be away, which is a stall too.
			pass(usualBeat)
		}
		b.beat()
	}
	if conn != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
	}
}

// beat records a commit.
func (b *bystander) beat() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if !b.late.IsZero() && now.After(b.late) {
		b.stalls = append(b.stalls, stall{b.late, now})
	}
	b.late = now.Add(beatEvery + usualBeat)
}

// commit makes an empty transaction that writes to the log, and reports whether it was committed.
func commit(ctx context.Context, conn **pgx.Conn, url string) bool {
	if *conn == nil || (*conn).IsClosed() {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return false
		}
		*conn = c
	}
	_, err := (*conn).Exec(ctx, "SELECT pg_logical_emit_message(true, 'bystander', '')")
	return err == nil
}

// stalled returns the longest time by which the bystander was delayed within a window of a length
// that begins after since.
func (b *bystander) stalled(since time.Time, window time.Duration) time.Duration {
	var longest time.Duration
	list := b.after(since)
	for n, first := range list {
		var sum time.Duration
		for _, s := range list[n:] {
			if s.from.After(first.from.Add(window)) {
				break
			}
			sum += s.to.Sub(s.from)
		}
		longest = max(longest, sum)
	}
	return longest
}

// after returns the parts of the stalls after a time, with that of the commit that has not
// returned.
func (b *bystander) after(since time.Time) (list []stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := stall{b.late, time.Now()}
	for _, s := range append(slices.Clone(b.stalls), open) {
		if s.from.Before(since) {
			s.from = since
		}
		if s.to.After(s.from) {
			list = append(list, s)
		}
	}
	return list
}

// always is the since of durations from all of a scenario.
var always time.Time

// requireWithin fails the test if something took longer than a limit. The limit grows by the time
// for which the machine stalled after since.
func (s *stack) requireWithin(limit time.Duration, tookMs int64, since time.Time, message string) {
	s.t.Helper()
	stalled := s.machine.stalled(since, limit)
	took := time.Duration(tookMs) * time.Millisecond
	require.LessOrEqual(s.t, took, limit+stalled, "%s: the limit is %s, and the machine stalled for %s", message, limit, stalled)
}

func TestStalledIsTheWorstWindow(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	b := &bystander{late: time.Now().Add(time.Hour), stalls: []stall{{at(1), at(4)}, {at(10), at(11)}, {at(12), at(14)}, {at(60), at(61)}}}
	require.Equal(t, 6*time.Second, b.stalled(always, 20*time.Second))
	require.Equal(t, 3*time.Second, b.stalled(always, 5*time.Second))
	require.Equal(t, 4*time.Second, b.stalled(at(3), 20*time.Second), "a stall counts from then on")
	require.Zero(t, b.stalled(at(61), 20*time.Second))
	b.late = at(62)
	require.Greater(t, b.stalled(at(61), time.Second), 50*time.Minute, "the commit that has not returned stalls as well")
}
