package httpapi

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// burstSeconds is how many seconds' worth of requests a tenant may send at once: enough to set
	// things up in bulk.
	burstSeconds = 10

	// maxBuckets bounds the memory of the limiter. Only tenants that exist have a bucket.
	maxBuckets = 10_000
)

// limiter grants every tenant so many requests a second, and a burst. Each process counts for
// itself. It is safe for concurrent use.
type limiter struct {
	rate  float64 // requests a second; 0: no limit
	burst float64

	mu      sync.Mutex
	buckets map[[16]byte]*bucket
}

// bucket is the token bucket of a tenant.
type bucket struct {
	tokens float64
	at     time.Time // when tokens was right
}

func newLimiter(rate int) *limiter {
	return &limiter{
		rate:    float64(rate),
		burst:   float64(rate) * burstSeconds,
		buckets: map[[16]byte]*bucket{},
	}
}

// grant is the rate limiter's decision about a request.
type grant struct {
	ok    bool
	left  int
	wait  time.Duration // until the next request is granted
	reset time.Duration // until the whole burst is back
}

// take asks for one request of a tenant at an instant.
func (l *limiter) take(tenant [16]byte, now time.Time) grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, found := l.buckets[tenant]
	if !found {
		l.makeRoom(now)
		b = &bucket{tokens: l.burst, at: now}
		l.buckets[tenant] = b
	}
	l.fill(b, now)
	g := grant{ok: b.tokens >= 1}
	if g.ok {
		b.tokens--
	}
	g.left = int(b.tokens)
	g.wait = l.time(1 - b.tokens)
	g.reset = l.time(l.burst - b.tokens)
	return g
}

func (l *limiter) fill(b *bucket, now time.Time) {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.tokens, b.at = min(l.burst, b.tokens+passed*l.rate), now
	}
}

// time returns how long it takes until so many tokens are there.
func (l *limiter) time(tokens float64) time.Duration {
	return time.Duration(max(tokens, 0) / l.rate * float64(time.Second))
}

// makeRoom forgets full buckets, which are like new ones; where none is full, it forgets all.
func (l *limiter) makeRoom(now time.Time) {
	if len(l.buckets) < maxBuckets {
		return
	}
	for tenant, b := range l.buckets {
		if l.fill(b, now); b.tokens >= l.burst {
			delete(l.buckets, tenant)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

// limit enforces the rate limit of a tenant, and sends the remaining quota in headers:
// draft-ietf-httpapi-ratelimit-headers.
func (s *Server) limit(next echo.HandlerFunc) echo.HandlerFunc {
	if s.limiter.rate == 0 {
		return next
	}
	policy := fmt.Sprintf(`"tenant";q=%.0f;w=%d`, s.limiter.burst, burstSeconds)
	return func(c echo.Context) error {
		if op := s.operation(c); op == nil || op.public {
			return next(c)
		}
		g := s.limiter.take(principalOf(c.Request().Context()).TenantID, time.Now())
		header := c.Response().Header()
		header.Set("RateLimit-Policy", policy)
		header.Set("RateLimit", fmt.Sprintf(`"tenant";r=%d;t=%d`, g.left, seconds(g.reset)))
		if g.ok {
			return next(c)
		}
		wait := seconds(g.wait)
		header.Set("Retry-After", strconv.Itoa(wait))
		return &refusal{
			status: http.StatusTooManyRequests, code: "rate_limited",
			detail: fmt.Sprintf("the keys of this tenant have asked for too much; try again in %d s", wait),
		}
	}
}

// seconds returns whole seconds, at least one where there is anything to wait for.
func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
