package planner

import (
	"math"
	"time"
)

// Changes counts how often an answer differed from the one before it.
type Changes struct {
	Pairs   int           // of consecutive answers whose bodies are both known
	Changed int           // pairs that differ
	Gap     time.Duration // mean time between the answers of a pair
}

// minPairs is how many pairs it takes to say anything.
const minPairs = 3

// Rate estimates how often the answer changes, in changes per second; ok is false where too little is known.
//
// Whoever looks at a thing now and then sees at most one change per look, so changes per time is too low. For changes that come as a
// Poisson process, -ln((n-x+0.5)/(n+0.5)) per gap, for x changes in n pairs, has almost no bias and stays finite where every pair
// differs: J. Cho and H. Garcia-Molina, Estimating Frequency of Change, ACM Transactions on Internet Technology 3(3), 2003, section 4.2.
func (c Changes) Rate() (perSecond float64, ok bool) {
	if c.Pairs < minPairs || c.Gap <= 0 {
		return 0, false
	}
	n, x := float64(c.Pairs), float64(c.Changed)
	return -math.Log((n-x+0.5)/(n+0.5)) / c.Gap.Seconds(), true
}
