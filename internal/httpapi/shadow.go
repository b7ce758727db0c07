package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
	"rubato/internal/simulate"
)

const (
	// shadowTime and shadowRuns bound the record that a policy is scored on.
	shadowTime = 30 * 24 * time.Hour
	shadowRuns = 2000
	// shadowTimeout bounds the time of scoring, which depends on the number of runs that the policy
	// makes.
	shadowTimeout = 5 * time.Second
)

// GetEndpointShadow scores another policy on the recorded runs of an endpoint.
func (s *Server) GetEndpointShadow(ctx context.Context, r api.GetEndpointShadowRequestObject) (api.GetEndpointShadowResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	e, now, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	policy, err := shadowPolicy(e, r.Params.Policy)
	if err != nil {
		return nil, err
	}
	list, err := s.runs.List(ctx, runs.Filter{
		TenantID:   e.TenantID,
		EndpointID: id,
		From:       now.Add(-shadowTime),
		Limit:      shadowRuns,
	})
	if err != nil {
		return nil, err
	}
	out, err := shadowOf(ctx, e, policy, list)
	if err != nil {
		return nil, err
	}
	return api.GetEndpointShadow200JSONResponse(out), nil
}

// shadowOf scores a policy on runs, newest first.
func shadowOf(ctx context.Context, e *endpoints.Endpoint, policy simulate.Policy, list []runs.Run) (api.EndpointShadow, error) {
	ctx, cancel := context.WithTimeout(ctx, shadowTimeout)
	defer cancel()
	looks := simulate.LooksOf(list)
	rows, err := simulate.Backtest{Looks: looks, Policies: []simulate.Policy{policy}}.Run(ctx)
	if err != nil && !errors.Is(err, simulate.ErrTooFewLooks) {
		return api.EndpointShadow{}, fmt.Errorf("scoring policy %s on %d runs of endpoint %s: %w", policy.Name, len(looks), e.ID, err)
	}
	return shadowAnswer(e, policy.Name, looks, rows), nil
}

// shadowPolicy returns the policy to score.
func shadowPolicy(e *endpoints.Endpoint, asked *api.GetEndpointShadowParamsPolicy) (simulate.Policy, error) {
	name := string(endpoints.PlannerAct)
	if e.Spec.Planner == endpoints.PlannerAct {
		name = string(endpoints.PlannerOff)
	}
	if asked != nil {
		name = string(*asked)
	}
	policy, ok := simulate.Named(name, e.Spec)
	if !ok {
		return policy, badParameter("policy", "invalid_value", "must be off, observe, suggest or act, because a cron has no interval that could be fixed")
	}
	return policy, nil
}

// shadowAnswer writes a score. rows are those of the record and of the policy, or none.
func shadowAnswer(e *endpoints.Endpoint, policy string, looks []simulate.Look, rows []simulate.BacktestRow) api.EndpointShadow {
	out := api.EndpointShadow{
		Policy:  policy,
		InForce: string(e.Spec.Planner),
		Runs:    int64(len(looks)),
		Summary: "Fewer than two recorded answers can be compared.",
	}
	if len(looks) > 0 {
		out.From, out.To = new(looks[0].At.UTC()), new(looks[len(looks)-1].At.UTC())
	}
	if len(rows) == 0 {
		return out
	}
	recorded, row := rows[0], rows[1]
	out.Changes = row.Changes
	out.Summary = shadowSummary(policy, row)
	out.Score = &api.ShadowScore{
		Runs:                boundsOf(row.Polls),
		RunsSaved:           boundsOf(*row.PollsSaved),
		MeanDelayMs:         boundsOf(row.MeanDelayMs),
		RecordedMeanDelayMs: boundsOf(recorded.MeanDelayMs),
	}
	if row.SoonerMs != nil {
		out.Score.SoonerMs = new(boundsOf(*row.SoonerMs))
	}
	return out
}

func boundsOf(r simulate.Range) api.Bounds { return api.Bounds{Least: r.Least, Most: r.Most} }

// shadowSummary says the score in a sentence, by the middle of its bounds.
func shadowSummary(policy string, row simulate.BacktestRow) string {
	saved := middle(*row.PollsSaved)
	text := fmt.Sprintf("With %s it would have made %.0f %% fewer runs", policy, 100*saved)
	switch percent := math.Round(100 * saved); {
	case percent == 0:
		text = fmt.Sprintf("With %s it would have made as many runs", policy)
	case percent < 0:
		text = fmt.Sprintf("With %s it would have made %.0f %% more runs", policy, -percent)
	}
	if row.SoonerMs == nil {
		return text + "; no answer changed."
	}
	sooner := middle(*row.SoonerMs)
	by := time.Duration(math.Abs(sooner) * float64(time.Millisecond)).Round(10 * time.Millisecond)
	switch {
	case by == 0:
		return text + " and found changes as soon."
	case sooner > 0:
		return fmt.Sprintf("%s and found changes %s sooner on average.", text, by)
	default:
		return fmt.Sprintf("%s and found changes %s later on average.", text, by)
	}
}

func middle(r simulate.Range) float64 { return (r.Least + r.Most) / 2 }
