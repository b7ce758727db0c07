package change

import (
	"math"
	"slices"
	"time"

	"rubato/internal/runs"
)

const (
	// pairsBefore is the number of consecutive pairs of different answers after which the search
	// looks closer.
	pairsBefore = 8
	// echoes is the number of close pairs.
	echoes = 3
	// EchoGap is the time between the looks of a close pair. A minimum interval may lengthen it.
	EchoGap = time.Second
	// doubt is the probability below which members that change at the rate of the others cannot
	// have changed in every close pair.
	doubt = 1e-3
	// rest is the time after a search without a result until the next one.
	rest = time.Hour
)

// Look is one successful answer.
type Look struct {
	// At is the start of the request.
	At time.Time
	// Digest and Members are those of [Form.Digest].
	Digest  uint64
	Members []Member
	// Rejected are findings that a user rejected. They are neither noise nor evidence.
	Rejected []string
}

// Watch is the state of the search for noise in the answers of an endpoint. The zero Watch has seen
// no answer.
//
// Noise differs in every answer, however soon it follows. After eight consecutive pairs that all
// differ, three looks follow in close succession. A member that differs in all three pairs is noise
// unless it may have changed: that is judged by the rate at which the other members change.
type Watch struct {
	digest uint64
	at     time.Time // of the last look, in whole milliseconds
	until  time.Time // end of the rest; zero: none
	// pairs is the number of consecutive pairs that differ, up to pairsBefore plus echoes.
	pairs int
	// wide and near are the total durations of the pairs before the close ones, and of the close
	// ones.
	wide, near time.Duration
	marks      []mark
}

// mark is a member under observation: the fingerprints of its path and its value, and the number of
// pairs in which it differed.
type mark struct {
	id, value  uint64
	wide, near uint8
}

// Result is the outcome of a look.
type Result struct {
	Watch Watch
	// Changed means that Watch differs from the state before and must be stored.
	Changed bool
	// Noise are the members that were found to be noise.
	Noise []runs.Noise
	// Again means that the next look should follow after [EchoGap].
	Again bool
}

// After returns the state after a look.
func (w Watch) After(look Look) Result {
	look.At = look.At.Truncate(time.Millisecond)
	switch {
	case look.At.Before(w.until):
		return Result{Watch: w}
	case w.digest == 0, look.Digest == 0, look.Members == nil, !look.At.After(w.at) && w.pairs > 0:
		return w.restart(look)
	case !runs.Comparable(w.digest, look.Digest):
		return w.restart(look)
	case look.Digest == w.digest:
		if w.pairs == 0 {
			return Result{Watch: w}
		}
		return w.restart(look)
	}
	next := w.paired(look)
	switch {
	case next.pairs < pairsBefore:
		return Result{Watch: next, Changed: true}
	case next.pairs < pairsBefore+echoes:
		return Result{
			Watch:   next,
			Changed: true,
			Again:   true,
		}
	}
	noise := next.noise(look)
	done := Watch{digest: look.Digest, at: look.At}
	if len(noise) == 0 {
		done.until = look.At.Add(rest)
	}
	return Result{
		Watch:   done,
		Changed: true,
		Noise:   noise,
	}
}

// Unchanged returns the state after an answer that says that nothing changed, such as a 304.
func (w Watch) Unchanged() Result {
	if w.pairs == 0 {
		return Result{Watch: w}
	}
	return w.restart(Look{Digest: w.digest})
}

// restart begins to count at a look.
func (w Watch) restart(look Look) Result {
	next := Watch{digest: look.Digest}
	return Result{Watch: next, Changed: w.digest != next.digest || w.pairs > 0 || !w.until.IsZero()}
}

// paired adds a look that differs from the last one.
func (w Watch) paired(look Look) Watch {
	next := Watch{
		digest: look.Digest,
		at:     look.At,
		pairs:  w.pairs + 1,
		wide:   w.wide,
		near:   w.near,
		marks:  make([]mark, len(look.Members)),
	}
	closer := w.pairs >= pairsBefore
	switch {
	case w.pairs == 0: // The look before was not kept.
	case closer:
		next.near += look.At.Sub(w.at)
	default:
		next.wide += look.At.Sub(w.at)
	}
	before := make(map[uint64]mark, len(w.marks))
	for _, m := range w.marks {
		before[m.id] = m
	}
	for i, member := range look.Members {
		id := member.id()
		m, known := before[id]
		switch differs := known && m.value != member.Value; {
		case differs && closer:
			m.near++
		case differs:
			m.wide++
		}
		m.id, m.value = id, member.Value
		next.marks[i] = m
	}
	return next
}

// noise returns the members that differed in all close pairs, if the rate of the others makes that
// impossible.
func (w Watch) noise(look Look) (found []runs.Noise) {
	gap := w.near / echoes
	var others []mark
	for i, m := range w.marks {
		switch path := look.Members[i].Path; {
		case slices.Contains(look.Rejected, path):
		case m.near == echoes:
			found = append(found, runs.Noise{
				Path:  path,
				Pairs: int(m.wide) + int(m.near),
				Gap:   gap.Round(time.Millisecond),
			})
		default:
			others = append(others, m)
		}
	}
	if len(others) == 0 || len(found) == 0 {
		return nil
	}
	rate := 0.0
	for _, m := range others {
		rate = max(rate, w.rate(m))
	}
	if chance := 1 - math.Exp(-rate*gap.Seconds()); chance*chance*chance >= doubt {
		return nil
	}
	return found
}

// rate returns the maximum-likelihood rate of changes of a member per second, from pairs of two
// lengths: the sum over changed pairs of g/(exp(rg)-1) equals the sum of the unchanged g.
func (w Watch) rate(m mark) float64 {
	const wides = pairsBefore - 1 // The first pair has no known length.
	wide, near := w.wide.Seconds()/wides, w.near.Seconds()/echoes
	changedWide, changedClose := min(float64(m.wide), wides), float64(m.near)
	still := (wides-changedWide)*wide + (echoes-changedClose)*near
	switch {
	case changedWide+changedClose == 0:
		return 0
	case still <= 0:
		return math.Inf(1)
	}
	surplus := func(rate float64) float64 {
		return changedWide*wide/math.Expm1(rate*wide) + changedClose*near/math.Expm1(rate*near) - still
	}
	low, high := 0.0, 1.0
	for surplus(high) > 0 && high < 1e6 {
		low, high = high, high*2
	}
	for range 60 {
		if middle := (low + high) / 2; surplus(middle) > 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
