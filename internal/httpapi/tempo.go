package httpapi

import (
	"context"
	"math"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
	"rubato/internal/stats"
	"rubato/internal/tempo"
)

const (
	// tempoTime is the time that the record of a tempo covers.
	tempoTime = 24 * time.Hour
	// tempoSteps is the maximum number of steps of a record.
	tempoSteps = 60
	// foreseenRuns is the number of newest runs from which a rate is estimated for an endpoint that
	// keeps none.
	foreseenRuns = 1000
)

// GetEndpointTempo returns the rate of change, price and interval of an endpoint.
func (s *Server) GetEndpointTempo(ctx context.Context, r api.GetEndpointTempoRequestObject) (api.GetEndpointTempoResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	e, now, err := s.endpoints.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	pace, err := s.paceOf(ctx, e, now)
	if err != nil {
		return nil, err
	}
	from, step := recordSpan(e, now)
	looks, err := s.stats.Looks(ctx, e.TenantID, id, from, step)
	if err != nil {
		return nil, err
	}
	baseline, err := e.BaselineRuns(looks.From, looks.At, looks.Pauses)
	if err != nil {
		return nil, err
	}
	out := paceAnswer(pace)
	sum := stats.Sum(looks.Groups)
	out.At, out.StepMs, out.Steps = now.UTC(), step.Milliseconds(), tempoStepsOf(looks, step)
	out.LikeliestChangesPerHour = likeliest(sum)
	out.Record = api.TempoRecord{
		From:         looks.From.UTC(),
		Runs:         sum.Runs,
		Compared:     sum.Compared,
		Changes:      sum.Changes,
		BaselineRuns: baseline,
	}
	return api.GetEndpointTempo200JSONResponse(out), nil
}

// paceOf returns the pace of an endpoint by its shared budget. If it keeps no rate, its newest runs
// are read.
func (s *Server) paceOf(ctx context.Context, e *endpoints.Endpoint, now time.Time) (endpoints.Pace, error) {
	if e.Spec.Budget == "" {
		shared, err := s.budgets.For(ctx, e.TenantID, e.Spec.Host(), e.Spec.Labels)
		if err != nil {
			return endpoints.Pace{}, err
		}
		e.Shared = endpoints.NewSharedBudget(shared)
	}
	var recorded []tempo.Look
	if e.State.Tempo == nil {
		found, err := s.runs.List(ctx, runs.Filter{
			TenantID:   e.TenantID,
			EndpointID: e.ID,
			From:       now.Add(-tempoTime),
			Limit:      foreseenRuns,
		})
		if err != nil {
			return endpoints.Pace{}, err
		}
		recorded = tempo.LooksOf(found)
	}
	return e.Pace(now, recorded)
}

// recordSpan returns the start of the record of an endpoint and the length of its steps.
func recordSpan(e *endpoints.Endpoint, now time.Time) (from time.Time, step time.Duration) {
	span := min(max(now.Sub(e.CreatedAt), time.Second), tempoTime)
	for _, step = range []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute} {
		if span <= (tempoSteps-1)*step {
			break
		}
	}
	return now.Add(-span).Truncate(step), step
}

func paceAnswer(p endpoints.Pace) api.EndpointTempo {
	out := api.EndpointTempo{
		Steers:    p.Steers,
		Why:       p.Why,
		MinWaitMs: p.Shortest.Milliseconds(),
		Budget: api.TempoBudget{
			Name:    p.Budget,
			Budget:  optional(p.Runs),
			EveryMs: p.Every.Milliseconds(),
		},
	}
	if p.Longest > 0 {
		out.MaxWaitMs = new(p.Longest.Milliseconds())
	}
	if p.Known {
		out.ChangesPerHour, out.Price, out.WaitMs = new(perHour(p.Rate)), new(p.Price), new(p.Wait.Milliseconds())
		out.NextLook = &api.NextLook{
			Changes: p.Next.Changes,
			Worth:   p.Next.Worth,
			Why:     p.Next.Why,
		}
	}
	return out
}

// tempoStepsOf returns the record by steps, including those without runs.
func tempoStepsOf(l stats.Looks, step time.Duration) []api.TempoStep {
	groups := map[time.Time][]stats.LookGroup{}
	for _, g := range l.Groups {
		groups[g.At.UTC()] = append(groups[g.At.UTC()], g)
	}
	list := []api.TempoStep{}
	for at := l.From.UTC(); at.Before(l.At); at = at.Add(step) {
		sum := stats.Sum(groups[at])
		one := api.TempoStep{
			At:             at,
			Runs:           sum.Runs,
			Changes:        sum.Changes,
			ChangesPerHour: likeliest(sum),
		}
		if price, ok := l.Prices[at]; ok {
			one.Price = &price
		}
		list = append(list, one)
	}
	return list
}

// likeliest returns the likeliest rate of change per hour; nil: none can be given.
func likeliest(t stats.Tally) *float64 {
	if t.Compared == 0 || math.IsInf(t.Rate, 1) {
		return nil
	}
	return new(perHour(t.Rate))
}

func perHour(perSecond float64) float64 { return perSecond * time.Hour.Seconds() }
