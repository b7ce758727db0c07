package planner

import (
	"net/http"
	"time"

	"rubato/internal/runs"
)

// unseen stands for the body of a 304 whose answer with a body is not known any more. All such answers are equal.
const unknownDigest = ^uint64(0)

// digestsOf returns the digest of each run's answer, newest first as the runs are. A 304 has no body of its own: it says that the last
// answer still holds, so it carries the digest of that.
func digestsOf(list []runs.Run) []uint64 {
	digests := make([]uint64, len(list))
	last := unknownDigest
	for i := len(list) - 1; i >= 0; i-- {
		o := list[i].Outcome
		switch {
		case o.StatusCode == http.StatusNotModified:
			digests[i] = last
		case o.Status == runs.Succeeded:
			digests[i], last = o.BodyDigest, o.BodyDigest
		default:
			digests[i] = o.BodyDigest
		}
	}
	return digests
}

// sighting is an answer that succeeded: when it was asked for, and its digest.
type observation struct {
	at     time.Time
	digest uint64
}

// changesOf counts how often answers, newest first, differ from the one before.
func changesOf(list []observation) (c Changes) {
	var total time.Duration
	for i := range len(list) - 1 {
		fresh, old := list[i], list[i+1]
		if fresh.digest == 0 && old.digest == 0 { // No body, or a program of before wrote the row.
			continue
		}
		c.Pairs++
		total += fresh.at.Sub(old.at)
		if fresh.digest != old.digest {
			c.Changed++
		}
	}
	if c.Pairs > 0 {
		c.Gap = total / time.Duration(c.Pairs)
	}
	return c
}
