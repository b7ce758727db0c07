package claims_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/claims"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl  = 60 * time.Second
	poll = time.Second
)

var me = [16]byte{1}

// fakeStore answers from its fields and records requests.
type fakeStore struct {
	claim  func(ctx context.Context, r claims.Request) ([]claims.Claim, error)
	extend func(ctx context.Context, held []claims.FencedRun) ([][16]byte, error)
	over   [][16]byte    // locks that have expired on the database's clock
	ahead  time.Duration // how far that clock is ahead

	mu       sync.Mutex
	requests []claims.Request
	at       []time.Time // of the requests
	beats    []time.Time
	look     func()      // runs before the due tenants are returned
	tenants  [][16]byte  // with due endpoints
	looks    []time.Time // times of the calls
}

func (s *fakeStore) ClaimDue(ctx context.Context, r claims.Request) ([]claims.Claim, time.Time, error) {
	s.mu.Lock()
	s.requests, s.at = append(s.requests, r), append(s.at, time.Now())
	s.mu.Unlock()
	if s.claim == nil {
		return nil, time.Now().Add(s.ahead), nil
	}
	list, err := s.claim(ctx, r)
	return list, time.Now().Add(s.ahead), err
}

// DueTenants returns the field.
func (s *fakeStore) DueTenants(context.Context, time.Duration, claims.TagSets) ([][16]byte, error) {
	if s.look != nil {
		s.look()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, time.Now())
	return s.tenants, nil
}

func (s *fakeStore) Release(context.Context, [16]byte, []claims.Claim) (int, error) { return 0, nil }

func (s *fakeStore) Wake(context.Context) error { return nil }

func (s *fakeStore) ExtendLocks(ctx context.Context, worker [16]byte, held []claims.FencedRun, granted time.Duration) (kept, over [][16]byte, err error) {
	s.mu.Lock()
	s.beats = append(s.beats, time.Now())
	s.mu.Unlock()
	if worker != me || granted != ttl {
		return nil, nil, errors.New("asked in another's name, or for another time")
	}
	kept, err = s.extend(ctx, held)
	return kept, s.over, err
}

// beaten returns when heartbeats were sent.
func (s *fakeStore) beaten() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.beats)
}

func (s *fakeStore) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// fakeReceiver takes every claim.
type fakeReceiver struct {
	room    int
	horizon time.Duration

	mu    sync.Mutex
	taken []claims.Claim
	calls int
	sent  []time.Time
	wants map[[16]byte]bool // tenants to take from while there is no room
}

func (k *fakeReceiver) Room() (int, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.room, k.horizon
}

// TagSets returns the zero value.
func (k *fakeReceiver) TagSets() claims.TagSets { return claims.TagSets{} }

// Share returns the tenants in wants.
func (k *fakeReceiver) Share(due [][16]byte) ([][16]byte, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(due), func(t [16]byte) bool { return !k.wants[t] }), 4
}

// has sets the room of the taker.
func (k *fakeReceiver) has(room int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.room = room
}

// looks makes the taker want claims that come due within a time.
func (k *fakeReceiver) looks(ahead time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.horizon = ahead
}

func (k *fakeReceiver) Take(list []claims.Claim, _, sent time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls++
	k.taken = append(k.taken, list...)
	k.sent = append(k.sent, sent)
}

// runClaimer runs a claimer. stop ends it and waits.
func runClaimer(t *testing.T, store *fakeStore, taker *fakeReceiver) (c *claims.Claimer, stop func()) {
	t.Helper()
	c = claims.NewClaimer(claims.ClaimerConfig{
		Worker: me, Store: store, Taker: taker, Rules: claims.Rules{Horizon: 10 * time.Second, LockTTL: ttl}, PollInterval: poll,
		Logger: slog.New(slog.DiscardHandler), Metrics: claims.NewMetrics(prometheus.NewRegistry()),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	return c, func() { cancel(); <-ended }
}

func TestTheClaimerPollsWithJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, taker := &fakeStore{}, &fakeReceiver{room: 7, horizon: 3 * time.Second}
		_, stop := runClaimer(t, store, taker)
		time.Sleep(200 * poll)
		stop()
		require.Equal(t, claims.Request{Worker: me, Limit: 7, Horizon: 3 * time.Second, LockTTL: ttl}, store.requests[0])
		distinct := map[time.Duration]bool{}
		for i := 1; i < len(store.at); i++ {
			gap := store.at[i].Sub(store.at[i-1])
			require.GreaterOrEqual(t, gap, 900*time.Millisecond)
			require.LessOrEqual(t, gap, 1100*time.Millisecond)
			distinct[gap] = true
		}
		require.Greater(t, len(distinct), 50, "polls are spread")
	})
}

// TestClaimExpiresWhenItsCallerGivesUp: a claim statement carries the instant, on the
// database's clock, at which the worker gives up on it, so that a late execution takes nothing. The
// database's clock is an hour ahead here and stalls for a while.
func TestClaimExpiresWhenItsCallerGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first   []claims.Claim // result of the first claim
		looking time.Duration
	}{
		"AskedAtOnce": {},
		// The claim fills all the room, so the due tenants are looked up before the next.
		"AskedAfterLooking": {first: make([]claims.Claim, 7), looking: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const ahead = time.Hour
				var gaveUp []time.Time
				store := &fakeStore{ahead: ahead, look: func() { time.Sleep(c.looking) }}
				store.claim = func(ctx context.Context, _ claims.Request) ([]claims.Claim, error) {
					if store.asked() == 1 {
						return c.first, nil
					}
					<-ctx.Done()
					gaveUp = append(gaveUp, time.Now())
					return nil, ctx.Err()
				}
				_, stop := runClaimer(t, store, &fakeReceiver{room: 7})
				time.Sleep(40 * time.Second)
				stop()
				require.Zero(t, store.requests[0].Until, "nothing is known of the database's clock")
				require.Len(t, gaveUp, 3)
				// The end of the claimer cut the last one short.
				for i, at := range gaveUp[:2] {
					require.Equal(t, at.Add(ahead), store.requests[1+i].Until)
				}
			})
		})
	}
}

// TestShutdownDoesNotWaitLongForAClaim stops a claimer during a claim that gets no answer.
func TestShutdownDoesNotWaitLongForAClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{claim: func(ctx context.Context, _ claims.Request) ([]claims.Claim, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		_, stop := runClaimer(t, store, &fakeReceiver{room: 7})
		synctest.Wait()
		began := time.Now()
		stop()
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestWakeUpsClaimAtOnceAndCoalesce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{}
		c, stop := runClaimer(t, store, &fakeReceiver{room: 1})
		synctest.Wait()
		require.Equal(t, 1, store.asked())
		for range 10 {
			c.Wake()
		}
		synctest.Wait()
		require.LessOrEqual(t, store.asked(), 3)
		require.GreaterOrEqual(t, store.asked(), 2)
		require.Zero(t, store.at[1].Sub(store.at[0]))
		asked := store.asked()
		synctest.Wait()
		require.Equal(t, asked, store.asked(), "then it waits again")
		stop()
	})
}

func TestAWakeDuringAClaimAsksForOneMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered, proceed := make(chan struct{}, 10), make(chan struct{})
		store := &fakeStore{claim: func(context.Context, claims.Request) ([]claims.Claim, error) {
			entered <- struct{}{}
			<-proceed
			return nil, nil
		}}
		c, stop := runClaimer(t, store, &fakeReceiver{room: 1})
		<-entered
		for range 5 {
			c.Wake()
		}
		close(proceed)
		synctest.Wait()
		require.Equal(t, 2, store.asked())
		stop()
	})
}

func TestFullBatchesGoOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := 1120
		store := &fakeStore{claim: func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			n := min(left, r.Limit)
			left -= n
			return make([]claims.Claim, n), nil
		}}
		taker := &fakeReceiver{room: 10_000}
		_, stop := runClaimer(t, store, taker)
		synctest.Wait()
		require.Len(t, taker.taken, 1120)
		require.Equal(t, 3, store.asked(), "500, 500 and the rest")
		require.Equal(t, 500, store.requests[0].Limit)
		stop()
	})
}

// TestARefillClaimsTheRestOfALimitedClaim: room in the queue triggers a claim at once if the last
// one left due endpoints behind.
func TestARefillClaimsTheRestOfALimitedClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taker := &fakeReceiver{room: 3, horizon: time.Second}
		due := 5
		store := &fakeStore{claim: func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			got := min(due, r.Limit)
			due -= got
			taker.has(0)
			return make([]claims.Claim, got), nil
		}}
		c, stop := runClaimer(t, store, taker)
		defer stop()
		synctest.Wait()
		require.Equal(t, 1, store.asked(), "there is no room for a second claim")

		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 1, store.asked(), "there is still none")

		taker.has(3)
		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 2, store.asked(), "it claims at once, long before the next poll")
		require.Zero(t, due)

		taker.has(3)
		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 2, store.asked(), "the last claim found less than it could take: nothing was left behind")
	})
}

// TestLittleRoomTriggersNoFurtherClaim has a taker that a claim nearly fills. The little room that
// is left is not worth another claim until the taker asks.
func TestLittleRoomTriggersNoFurtherClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taker := &fakeReceiver{room: 40, horizon: time.Second}
		store := &fakeStore{claim: func(_ context.Context, r claims.Request) ([]claims.Claim, error) {
			taker.has(3 * (r.Limit / 40)) // No other claim follows.
			return make([]claims.Claim, r.Limit), nil
		}}
		c, stop := runClaimer(t, store, taker)
		defer stop()
		synctest.Wait()
		require.Equal(t, 1, store.asked())

		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 2, store.asked())
		require.Equal(t, 3, store.requests[1].Limit)
	})
}

// TestARefillLooksFurtherAheadThanTheLastClaim fills the taker with claims that are not due yet, so
// that a claim asks only for due endpoints, and then makes room.
func TestARefillLooksFurtherAheadThanTheLastClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taker, store := &fakeReceiver{room: 3}, &fakeStore{}
		c, stop := runClaimer(t, store, taker)
		defer stop()
		synctest.Wait()
		c.Refill(0)
		synctest.Wait()
		require.Equal(t, 1, store.asked(), "it would look no further ahead")

		taker.looks(time.Second)
		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 2, store.asked(), "what the last claim did not look at may be there")

		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 2, store.asked(), "nothing was")
	})
}

func TestAWakeUpWithoutRoomClaimsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		taker := &fakeReceiver{room: 3, horizon: time.Second}
		store := &fakeStore{}
		c, stop := runClaimer(t, store, taker)
		defer stop()
		synctest.Wait()
		taker.has(0)
		c.Wake()
		synctest.Wait()
		require.Equal(t, 1, store.asked())

		taker.has(1)
		c.Refill(time.Second)
		synctest.Wait()
		require.Equal(t, 2, store.asked())
	})
}

func TestWithoutRoomTheClaimerReadsOnlyTheClock(t *testing.T) {
	t.Parallel()
	for _, room := range []int{0, -3} {
		synctest.Test(t, func(t *testing.T) {
			store, taker := &fakeStore{}, &fakeReceiver{room: room}
			_, stop := runClaimer(t, store, taker)
			time.Sleep(10 * poll)
			stop()
			require.InDelta(t, 10, store.asked(), 2, "at the pace of polls")
			require.Zero(t, store.requests[0].Limit)
			require.Equal(t, store.asked(), taker.calls)
		})
	}
}

func TestAFailedClaimIsTriedAgainAtTheNextPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{claim: func(context.Context, claims.Request) ([]claims.Claim, error) { return nil, errors.New("away") }}
		taker := &fakeReceiver{room: 1}
		_, stop := runClaimer(t, store, taker)
		time.Sleep(10 * poll)
		stop()
		require.InDelta(t, 10, store.asked(), 2)
		require.Zero(t, taker.calls, "a claim that failed tells nothing")
	})
}

func TestAClaimUnderWayIsNotLostToShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered, proceed := make(chan struct{}), make(chan struct{})
		store := &fakeStore{claim: func(ctx context.Context, _ claims.Request) ([]claims.Claim, error) {
			close(entered)
			<-proceed
			return make([]claims.Claim, 1), ctx.Err()
		}}
		taker := &fakeReceiver{room: 1}
		_, stop := runClaimer(t, store, taker)
		<-entered
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		synctest.Wait()
		close(proceed)
		<-stopped
		require.Len(t, taker.taken, 1)
		require.Equal(t, 1, store.asked(), "but it is the last one")
	})
}

func TestHangingClaimIsAbandonedWhileItsLockIsUseful(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{claim: func(ctx context.Context, _ claims.Request) ([]claims.Claim, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		_, stop := runClaimer(t, store, &fakeReceiver{room: 1})
		time.Sleep(ttl/4 + poll + poll/2)
		require.Equal(t, 2, store.asked())
		stop()
	})
}

func TestClaimsCarryTheSendTimeOfTheirStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{claim: func(context.Context, claims.Request) ([]claims.Claim, error) {
			time.Sleep(300 * time.Millisecond)
			return nil, nil
		}}
		taker := &fakeReceiver{room: 1}
		began := time.Now()
		_, stop := runClaimer(t, store, taker)
		time.Sleep(poll / 2)
		synctest.Wait()
		require.Equal(t, []time.Time{began}, taker.sent)
		stop()
	})
}
