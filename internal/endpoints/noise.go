package endpoints

import (
	"context"
	"fmt"
	"time"

	"rubato/internal/change"
	"rubato/internal/errs"
)

// NoiseAuthor is the author of the one-shot hints of the search for noise.
const NoiseAuthor = "noise"

// lookLife is the lifetime of such a hint. A look that comes later is an ordinary one.
const lookLife = time.Minute

// lookAgain plans a close look for the search for noise, unless another one-shot hint is in force.
// Like every hint it stays within the clamps, so that a minimum interval lengthens the gap.
func (e *Endpoint) lookAgain(now time.Time, run Finished) {
	if !run.LookAgain || e.Spec.Planner != PlannerAct || e.State.OneShotHint != nil || e.PausedAt(now) {
		return
	}
	at := laterOf(run.StartedAt.Add(change.EchoGap).Truncate(time.Millisecond), e.State.LastSlot.Add(time.Millisecond))
	e.State.OneShotHint = &Hint{
		At:        at,
		ExpiresAt: laterOf(now, at).Add(lookLife),
		Reason:    "every answer differs: a look in close succession tells noise from change",
		Author:    NoiseAuthor,
		CreatedAt: now,
	}
}

// NoiseState says whether answers are compared without a finding.
type NoiseState string

// The states of a finding.
const (
	// NoiseIgnored: answers are compared without the member.
	NoiseIgnored NoiseState = "ignored"
	// NoiseRejected: a user rejected the finding, so that the member counts as content again.
	NoiseRejected NoiseState = "rejected"
)

// Finding is a member of the answers that was found to be noise.
type Finding struct {
	// Path is its JSONPath.
	Path string
	// Pairs is the number of successive answers in which it differed from the one before, and Gap the
	// mean time between the answers of the last of these pairs.
	Pairs   int
	Gap     time.Duration
	FoundAt time.Time
	// RejectedAt and RejectedBy, the name of an API key, are zero unless a user rejected it.
	RejectedAt time.Time
	RejectedBy string
}

// State returns whether answers are compared without the member.
func (f Finding) State() NoiseState {
	if f.RejectedAt.IsZero() {
		return NoiseIgnored
	}
	return NoiseRejected
}

// NoiseVerdict is a user's judgement of a finding.
type NoiseVerdict struct {
	Path  string
	State NoiseState
}

// Check returns an [errs.Invalid] that names every bad field of a verdict.
func (v NoiseVerdict) Check() error {
	var bad []errs.Field
	if v.Path == "" {
		bad = append(bad, errs.Field{
			Field:   "path",
			Code:    "required",
			Message: "must be the JSONPath of a finding, such as $.meta.generatedAt",
		})
	}
	if v.State != NoiseIgnored && v.State != NoiseRejected {
		bad = append(bad, errs.Field{
			Field:   "state",
			Code:    "invalid_value",
			Message: "must be ignored or rejected",
		})
	}
	return errs.InvalidFields(bad)
}

// NoiseReader reads the findings of the search for noise.
type NoiseReader interface {
	// Noise returns the findings of an endpoint by path, archived or not; none if the tenant has no
	// such endpoint.
	Noise(ctx context.Context, tenant [16]byte, id ID) ([]Finding, error)
}

// SearchesNoise reports whether noise is searched for in the answers, and left out: not with
// planner authority off, not without stored answers, and not if a change key selects the compared
// members.
func (s *Spec) SearchesNoise() bool {
	return s.Planner != PlannerOff && s.MaxResponseKB > 0 && len(s.ChangeKey) == 0
}

// Noise returns the findings of an endpoint by path, and whether its answers are searched at
// present. Without a search the findings have no effect.
func (s *Service) Noise(ctx context.Context, by Actor, id ID) (found []Finding, searched bool, err error) {
	e, _, err := s.store.Get(ctx, by.TenantID, id)
	if err != nil {
		return nil, false, err
	}
	found, err = s.noise.Noise(ctx, by.TenantID, id)
	return found, e.Spec.SearchesNoise(), err
}

// JudgeNoise rejects a finding, so that the member counts as content again and is not found another
// time, or takes the rejection back. Runs that are claimed afterwards follow the verdict. A finding
// that is in the wanted state already stays as it is.
func (s *Service) JudgeNoise(ctx context.Context, by Actor, id ID, v NoiseVerdict) (Finding, error) {
	if err := v.Check(); err != nil {
		return Finding{}, err
	}
	found, err := s.finding(ctx, by, id, v.Path)
	if err != nil || found.State() == v.State {
		return found, err
	}
	cause := CauseApprove
	if v.State == NoiseRejected {
		cause = CauseReject
	}
	if _, err := s.change(ctx, by, id, cause, func(e *Endpoint, _ time.Time) error {
		e.Judged = &v
		return nil
	}); err != nil {
		return Finding{}, err
	}
	return s.finding(ctx, by, id, v.Path)
}

// finding returns one finding of an endpoint.
func (s *Service) finding(ctx context.Context, by Actor, id ID, path string) (Finding, error) {
	list, _, err := s.Noise(ctx, by, id)
	if err != nil {
		return Finding{}, err
	}
	for _, f := range list {
		if f.Path == path {
			return f, nil
		}
	}
	return Finding{}, errs.New(errs.NotFound, "not_found",
		fmt.Sprintf("no noise was found at %s; GET /v1/endpoints/%s/noise lists the paths", path, id))
}
