package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// ListRuns returns a page of the tenant's runs.
func (s *Server) ListRuns(ctx context.Context, r api.ListRunsRequestObject) (api.ListRunsResponseObject, error) {
	p := r.Params
	q := runQuery{
		status: p.Status,
		from:   p.From,
		to:     p.To,
		limit:  p.Limit,
		cursor: p.Cursor,
	}
	id, err := endpointNamed(p.EndpointID)
	if err != nil {
		return nil, err
	}
	if p.EndpointID != nil {
		q.endpoint = &id
	}
	fields, err := fieldsOf(p.Fields, s.rules.run)
	if err != nil {
		return nil, err
	}
	list, err := s.listRuns(ctx, q)
	if err != nil {
		return nil, err
	}
	if fields != nil {
		return selected{
			items:  list.Items,
			next:   list.NextCursor,
			fields: fields,
		}, nil
	}
	return api.ListRuns200JSONResponse(*list), nil
}

// ListEndpointRuns returns a page of the runs of one endpoint.
func (s *Server) ListEndpointRuns(ctx context.Context, r api.ListEndpointRunsRequestObject) (api.ListEndpointRunsResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	p := r.Params
	fields, err := fieldsOf(p.Fields, s.rules.run)
	if err != nil {
		return nil, err
	}
	list, err := s.listRuns(ctx, runQuery{
		endpoint: &id,
		status:   p.Status,
		from:     p.From,
		to:       p.To,
		limit:    p.Limit,
		cursor:   p.Cursor,
	})
	if err != nil {
		return nil, err
	}
	if fields != nil {
		return selected{
			items:  list.Items,
			next:   list.NextCursor,
			fields: fields,
		}, nil
	}
	return api.ListEndpointRuns200JSONResponse(*list), nil
}

// runQuery is a question for runs; nil fields do not filter.
type runQuery struct {
	endpoint *endpoints.ID
	status   *api.Status
	from, to *time.Time
	limit    *int32
	cursor   *string
}

func (s *Server) listRuns(ctx context.Context, q runQuery) (*api.RunList, error) {
	f := runs.Filter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(q.limit) + 1}
	set(&f.From, q.from)
	set(&f.To, q.to)
	f.Statuses = statusesOf(q.status)
	if q.endpoint != nil { // Runs of an endpoint that does not exist are no empty list.
		if _, _, err := s.endpoints.Get(ctx, actorOf(ctx), *q.endpoint); err != nil {
			return nil, err
		}
		f.EndpointID = *q.endpoint
	}
	digest := filterDigest("runs", f.TenantID, f.EndpointID, statusText(f.Statuses), f.From.UnixNano(), f.To.UnixNano())
	before, err := resume(q.cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.runs.List(ctx, f)
	if err != nil {
		return nil, err
	}
	return runList(found, f.Limit, digest)
}

// statusesOf returns the statuses that are asked for, each once and in one order, so that a cursor
// does not depend on how they were asked for.
func statusesOf(given *api.Status) []runs.Status {
	if given == nil {
		return nil
	}
	statuses := make([]runs.Status, len(*given))
	for i, status := range *given {
		statuses[i] = runs.Status(status)
	}
	slices.Sort(statuses)
	return slices.Compact(statuses)
}

// statusText returns statuses as one text for the digest of a cursor: a single one as itself, as in
// cursors of releases that knew one only.
func statusText(statuses []runs.Status) string {
	texts := make([]string, len(statuses))
	for i, status := range statuses {
		texts[i] = string(status)
	}
	return strings.Join(texts, ",")
}

func runList(found []runs.Run, asked int, digest [digestSize]byte) (*api.RunList, error) {
	out := &api.RunList{Items: []api.Run{}}
	found, more := page(found, asked)
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	attemptsInOrder(found)
	for _, r := range found {
		answer, err := runAnswer(r)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, answer)
	}
	return out, nil
}

// attemptsInOrder puts the last attempt of a due time before the others, in their places: an ID
// contains the due time of a run and not which attempt it is. Everything else stays where its ID
// puts it, so that the order is that of the cursor on every page.
func attemptsInOrder(found []runs.Run) {
	type dueTime struct {
		at       time.Time
		endpoint [16]byte
	}
	places := map[dueTime][]int{}
	for i, r := range found {
		due := dueTime{r.ScheduledFor.UTC(), r.EndpointID}
		places[due] = append(places[due], i)
	}
	for _, of := range places {
		attempts := make([]runs.Run, len(of))
		for n, i := range of {
			attempts[n] = found[i]
		}
		slices.SortFunc(attempts, func(a, b runs.Run) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(b.InfraAttempt, a.InfraAttempt))
		})
		for n, i := range of {
			found[i] = attempts[n]
		}
	}
}

// GetRun returns one run with its body.
func (s *Server) GetRun(ctx context.Context, r api.GetRunRequestObject) (api.GetRunResponseObject, error) {
	id, err := runs.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	run, err := s.runs.Get(ctx, principalOf(ctx).TenantID, id)
	if err != nil {
		return nil, err
	}
	answer, err := runAnswer(run)
	if err != nil {
		return nil, err
	}
	if err := s.showRequest(ctx, &answer, run); err != nil {
		return nil, err
	}
	showBody(&answer, run.Outcome)
	return api.GetRun200JSONResponse(answer), nil
}

// stepsOf returns the trace of a decision. None is kept where the baseline alone decided.
func stepsOf(d runs.Decision) ([]governor.Step, error) {
	var steps []governor.Step
	if len(d.Steps) > 0 {
		if err := json.Unmarshal(d.Steps, &steps); err != nil {
			return nil, fmt.Errorf("reading the steps of a decision: %w", err)
		}
	}
	if len(steps) == 0 {
		steps = []governor.Step{{Rule: governor.Rule(d.Source), At: d.NextRunAt, Why: "the baseline alone decided"}}
	}
	return steps, nil
}
