package planner

import (
	"net/http"
	"time"

	"rubato/internal/runs"
)

// unknownDigest is the digest of a 304 for which no earlier body is known. All such responses count
// as equal.
const unknownDigest = ^uint64(0)

// digestsOf returns the body digest of each run, newest first like the runs. A 304 has no body and
// confirms the previous response, so it takes the digest of that response.
func digestsOf(list []runs.Run) []uint64 {
	digests := make([]uint64, len(list))
	last := unknownDigest
	for i := len(list) - 1; i >= 0; i-- {
		o := &list[i].Outcome
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

// observation is a successful response: its request time and its digest.
type observation struct {
	at     time.Time
	digest uint64
}

// changesOf counts how often successive responses differ. The list is newest first.
func changesOf(list []observation) (c Changes) {
	var total time.Duration
	for i := range len(list) - 1 {
		fresh, old := list[i], list[i+1]
		if fresh.digest == 0 && old.digest == 0 || !runs.Comparable(fresh.digest, old.digest) { // no body, or another form
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
