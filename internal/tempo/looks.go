package tempo

import (
	"net/http"
	"slices"

	"rubato/internal/runs"
)

// LooksOf returns finished runs as looks, oldest first. The list is newest first. Skipped runs sent
// nothing, and one-off runs may have sent another request, so both are left out.
func LooksOf(list []runs.Run) (looks []Look) {
	for _, r := range slices.Backward(list) {
		if r.FinishedAt.IsZero() || r.Outcome.Status == runs.Skipped || r.OneOff() {
			continue
		}
		unchanged := r.Outcome.StatusCode == http.StatusNotModified
		looks = append(looks, Look{
			At:        r.StartedAt,
			Answered:  r.Outcome.Status == runs.Succeeded && (unchanged || r.Outcome.BodyDigest != 0),
			Unchanged: unchanged,
			Digest:    r.Outcome.BodyDigest,
		})
	}
	return looks
}
