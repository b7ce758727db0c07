package planner

import (
	"net/http"

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

// comparisons counts the successful answers that could be compared with the one before, and those
// of them that differ. The list is newest first.
func comparisons(answers []uint64) (compared, changed int) {
	for i := range len(answers) - 1 {
		fresh, old := answers[i], answers[i+1]
		if fresh == 0 && old == 0 || !runs.Comparable(fresh, old) { // No body, or another form.
			continue
		}
		compared++
		if fresh != old {
			changed++
		}
	}
	return compared, changed
}
