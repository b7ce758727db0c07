package httpapi

import (
	"fmt"
	"unicode/utf8"

	"rubato/internal/calls"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
	"rubato/internal/stats"
)

// runAnswer returns a run as users see it, without the body of its answer.
func runAnswer(r runs.Run) (api.Run, error) {
	o := r.Outcome
	out := api.Run{
		ID:           r.ID.String(),
		EndpointID:   ownerName(r.Source == string(governor.SourceCall), r.EndpointID),
		Status:       api.RunStatus(o.Status),
		ReasonCode:   optional(string(o.Reason)),
		ScheduledFor: r.ScheduledFor.UTC(),
		Attempt:      int32(r.Attempt),
		Source:       api.Source(r.Source),
		InfraAttempt: int32(r.InfraAttempt),
		ClaimedAt:    shown(r.ClaimedAt),
		StartedAt:    shown(r.StartedAt),
		FinishedAt:   shown(r.FinishedAt),
		ContentType:  optional(o.ContentType),
		Error:        optional(o.Error),
	}
	out.WorkerID, out.CancelRequestedAt = workerName(r.WorkerID), shown(r.CancelRequestedAt)
	out.NotBefore, out.SuspendedUntil = shown(r.NotBefore), shown(r.SuspendedUntil)
	if s := r.Skipped; s != nil {
		out.Skipped = &api.SkippedDueTimes{
			From:  s.From.UTC(),
			To:    s.To.UTC(),
			Count: s.Count,
		}
	} else if !r.ClaimedAt.IsZero() {
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

// ownerName returns the ID of the endpoint or the call that a run belongs to.
func ownerName(call bool, id [16]byte) string {
	if call {
		return calls.ID(id).String()
	}
	return endpoints.ID(id).String()
}

// workerName returns a worker as users see it, nil where there is none.
func workerName(id [16]byte) *string {
	if id == [16]byte{} {
		return nil
	}
	return new(stats.WorkerName(id))
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

// showExchange sets the fields of the exchange with the target.
func showExchange(out *api.Run, o runs.Outcome) {
	if o.StatusCode != 0 {
		out.StatusCode = new(int32(o.StatusCode))
	}
	out.Phases = &api.Phases{
		DNSMs:      millis(o.Phases.DNS),
		ConnectMs:  millis(o.Phases.Connect),
		TLSMs:      millis(o.Phases.TLS),
		WaitMs:     millis(o.Phases.Wait),
		TransferMs: millis(o.Phases.Transfer),
	}
	out.ResponseBytes = &o.ResponseBytes
	out.Truncated = &o.Truncated
	if o.BodyDigest != 0 {
		out.BodyDigest = new(fmt.Sprintf("%016x", o.BodyDigest))
	}
}

// showBody sets the captured response body: as text if it is text, otherwise in base64. A text that
// was cut may begin or end in the middle of a character, which is left out.
func showBody(out *api.Run, o runs.Outcome) {
	head, tail := o.Body, o.Tail
	if o.Truncated {
		if whole := withoutPartialEnd(head); utf8.Valid(whole) {
			head = whole
		}
		if whole := withoutPartialBegin(tail); utf8.Valid(whole) {
			tail = whole
		}
	}
	out.Body, out.BodyBase64 = textOrBytes(head)
	out.BodyTail, out.BodyTailBase64 = textOrBytes(tail)
}

// withoutPartialEnd drops an incomplete UTF-8 character at the end.
func withoutPartialEnd(text []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// withoutPartialBegin drops an incomplete UTF-8 character at the start.
func withoutPartialBegin(text []byte) []byte {
	n := 0
	for n < len(text) && n < utf8.UTFMax-1 && !utf8.RuneStart(text[n]) {
		n++
	}
	return text[n:]
}

// textOrBytes returns a target's data as text if it is text, otherwise as bytes.
func textOrBytes(sent []byte) (*string, *[]byte) {
	switch {
	case len(sent) == 0:
		return nil, nil
	case utf8.Valid(sent):
		return new(string(sent)), nil
	default:
		return nil, &sent
	}
}
