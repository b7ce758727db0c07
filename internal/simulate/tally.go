package simulate

import (
	"math"
	"math/bits"
	"time"

	"rubato/internal/tempo"
)

// delays are the times from changes to their detection.
type delays struct {
	n   int64
	sum float64 // milliseconds
	// counts is a histogram by bucketOf, whose buckets are at most 1 % wide.
	counts []int64
}

// The histogram has bucketsPerDouble buckets between two powers of two of microseconds.
const bucketsPerDouble = 128

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < bucketsPerDouble {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(bucketsPerDouble)
	return (shift+1)*bucketsPerDouble + int(us>>shift) - bucketsPerDouble
}

// valueOf returns the middle of a bucket in milliseconds.
func valueOf(bucket int) float64 {
	if bucket < bucketsPerDouble {
		return float64(bucket) / 1e3
	}
	shift := bucket/bucketsPerDouble - 1
	return math.Ldexp(float64(bucketsPerDouble+bucket%bucketsPerDouble)+0.5, shift) / 1e3
}

func (d *delays) add(delay time.Duration) {
	d.n++
	d.sum += float64(delay) / float64(time.Millisecond)
	bucket := bucketOf(delay)
	if bucket >= len(d.counts) {
		d.counts = append(d.counts, make([]int64, bucket+1-len(d.counts))...)
	}
	d.counts[bucket]++
}

func (d *delays) merge(other *delays) {
	d.n += other.n
	d.sum += other.sum
	if len(other.counts) > len(d.counts) {
		d.counts = append(d.counts, make([]int64, len(other.counts)-len(d.counts))...)
	}
	for i, n := range other.counts {
		d.counts[i] += n
	}
}

// mean returns the mean delay in milliseconds; 0 without changes.
func (d *delays) mean() float64 {
	if d.n == 0 {
		return 0
	}
	return d.sum / float64(d.n)
}

// percentile returns a nearest-rank percentile in milliseconds; 0 without changes.
func (d *delays) percentile(share float64) float64 {
	rank := int64(math.Ceil(share * float64(d.n)))
	for bucket, n := range d.counts {
		if rank -= n; rank <= 0 && n > 0 {
			return valueOf(bucket)
		}
	}
	return 0
}

// tally is what one endpoint did in one world.
type tally struct {
	polls, changes, refusals, moves int64
	delays                          delays
	// fixedSum and oracleSum are the sums of the delays of the two comparisons, in milliseconds.
	fixedSum, oracleSum float64
	// outside is the time by which gaps between starts missed the clamps.
	outside time.Duration
	// recoveries are the times from the ends of outages to the first successful request.
	recoveries delays
	// outagePolls are the requests during the outages of recoveries.
	outagePolls int64
	// hours are the polls of each hour.
	hours []int64
	// worstShare is the largest share of a budget in one of its periods; 0: no budget.
	worstShare float64
}

func (t *tally) merge(other *tally) {
	t.polls += other.polls
	t.changes += other.changes
	t.refusals += other.refusals
	t.moves += other.moves
	t.fixedSum += other.fixedSum
	t.oracleSum += other.oracleSum
	t.outside += other.outside
	t.worstShare = max(t.worstShare, other.worstShare)
	t.outagePolls += other.outagePolls
	t.delays.merge(&other.delays)
	t.recoveries.merge(&other.recoveries)
}

// shareOf returns the largest number of polls in a period of a budget, divided by the budget. A
// period is at least an hour. The first one does not count.
func (t *tally) shareOf(b tempo.Budget) (worst float64) {
	period := max(int(b.Per/time.Hour), 1)
	due := float64(time.Duration(period)*time.Hour) / float64(b.Every())
	for from := period; from+period <= len(t.hours); from += period {
		var polls int64
		for _, n := range t.hours[from : from+period] {
			polls += n
		}
		worst = max(worst, float64(polls)/due)
	}
	return worst
}
