package httpapi

import (
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// runAnswer returns a run as users see it, without the body of its answer.
func runAnswer(r runs.Run) (api.Run, error) {
	o := r.Outcome
	out := api.Run{
		ID: r.ID.String(), EndpointID: endpoints.ID(r.EndpointID).String(), Status: api.RunStatus(o.Status),
		ReasonCode: optional(string(o.Reason)), ScheduledFor: r.ScheduledFor.UTC(),
		Attempt: int32(r.Attempt), Source: api.Source(r.Source), //nolint:gosec // At most 10.
		ClaimedAt: shown(r.ClaimedAt), StartedAt: shown(r.StartedAt), FinishedAt: shown(r.FinishedAt),
		ContentType: optional(o.ContentType), Error: optional(o.Error),
	}
	out.WorkerID, out.CancelRequestedAt = workerName(r.WorkerID), shown(r.CancelRequestedAt)
	if s := r.Skipped; s != nil {
		out.Skipped = &api.SkippedDueTimes{From: s.From.UTC(), To: s.To.UTC(), Count: s.Count}
	} else {
		out.ClaimToken = new(r.ClaimToken)
	}
	if !r.StartedAt.IsZero() {
		out.StartLagMs = new(millis(r.StartedAt.Sub(r.ScheduledFor)))
	}
	if !r.StartedAt.IsZero() && !r.FinishedAt.IsZero() {
		out.DurationMs = new(millis(r.FinishedAt.Sub(r.StartedAt)))
		showExchange(&out, o)
	}
	decision, err := runDecision(r.Decision)
	out.Decision = decision
	return out, err
}

// workerName returns a worker as users see it, nil where there is none.
func workerName(id [16]byte) *string {
	if id == [16]byte{} {
		return nil
	}
	return new("wk_" + uuid.UUID(id).String())
}

// runDecision returns the decision of a finish as users see it, nil where nothing follows.
func runDecision(d runs.Decision) (*api.Decision, error) {
	if d.Source == "" {
		return nil, nil //nolint:nilnil // No decision is no error.
	}
	steps, err := stepsOf(d)
	if err != nil {
		return nil, err
	}
	return new(decisionAnswer(d.NextRunAt, governor.Source(d.Source), steps)), nil
}

// showExchange fills in what is known of the exchange with the target.
func showExchange(out *api.Run, o runs.Outcome) {
	if o.StatusCode != 0 {
		out.StatusCode = new(int32(o.StatusCode)) //nolint:gosec // Three digits.
	}
	out.Phases = &api.Phases{
		DNSMs: millis(o.Phases.DNS), ConnectMs: millis(o.Phases.Connect), TLSMs: millis(o.Phases.TLS),
		WaitMs: millis(o.Phases.Wait), TransferMs: millis(o.Phases.Transfer),
	}
	out.ResponseBytes = &o.ResponseBytes
	out.Truncated = &o.Truncated
	if o.BodyDigest != 0 {
		out.BodyDigest = new(fmt.Sprintf("%016x", o.BodyDigest))
	}
}

// showBody fills in what was kept of the answer's body: as text where it is text, else in base64.
func showBody(out *api.Run, body []byte) {
	switch {
	case len(body) == 0:
	case utf8.Valid(body):
		out.Body = new(string(body))
	default:
		out.BodyBase64 = &body
	}
}
