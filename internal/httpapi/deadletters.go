package httpapi

import (
	"context"

	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

// ListDeadLetters returns a page of dead letters.
func (s *Server) ListDeadLetters(ctx context.Context, r api.ListDeadLettersRequestObject) (api.ListDeadLettersResponseObject, error) {
	f := deadletters.Filter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	setWord(&f.State, r.Params.State)
	set(&f.Reason, r.Params.ReasonCode)
	var err error
	if f.EndpointID, err = endpointNamed(r.Params.EndpointID); err != nil {
		return nil, err
	}
	digest := filterDigest("dead-letters", f.TenantID, f.EndpointID, f.State, f.Reason)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.letters.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.DeadLetterList{Items: []api.DeadLetter{}}
	found, more := page(found, f.Limit)
	for _, l := range found {
		out.Items = append(out.Items, letterAnswer(l))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListDeadLetters200JSONResponse(out), nil
}

// GetDeadLetter returns a dead letter with its request.
func (s *Server) GetDeadLetter(ctx context.Context, r api.GetDeadLetterRequestObject) (api.GetDeadLetterResponseObject, error) {
	id, err := deadletters.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	l, content, err := s.letters.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	out := letterAnswer(l)
	out.Body, out.BodyBase64 = textOrBytes(l.Body)
	if content != nil {
		out.Request = new(requestAnswer(content.Request.Spec(), content.Key))
		if content.Version > 0 {
			out.Request.Version = new(content.Version)
		}
	}
	return api.GetDeadLetter200JSONResponse(out), nil
}

// ReplayDeadLetter queues a one-off run for a dead letter.
func (s *Server) ReplayDeadLetter(ctx context.Context, r api.ReplayDeadLetterRequestObject) (api.ReplayDeadLetterResponseObject, error) {
	id, err := deadletters.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	var again deadletters.Replay
	if r.Body != nil {
		set(&again.NewKey, r.Body.NewIdempotencyKey)
	}
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(nil)
	}
	l, queued, err := s.letters.Replay(ctx, actorOf(ctx), id, again)
	if err != nil {
		return nil, err
	}
	out := plannedRun(l.ReplayID(), queued)
	if l.Call {
		out.CallID = new(l.ReplayCall.String())
	}
	return api.ReplayDeadLetter202JSONResponse(out), nil
}

// defaultReplays is the number of dead letters that are replayed by filter without a limit.
const (
	defaultReplays = 100
	maxReplays     = 500
	maxPerMinute   = 60_000
)

// ReplayDeadLetters queues one-off runs for the dead letters that match.
func (s *Server) ReplayDeadLetters(ctx context.Context, r api.ReplayDeadLettersRequestObject) (api.ReplayDeadLettersResponseObject, error) {
	all, err := replaysOf(r.Body)
	if in := inputOf(ctx); in.bad() || err != nil {
		return nil, in.refuse(err)
	}
	done, err := s.letters.ReplayAll(ctx, actorOf(ctx), all)
	if err != nil {
		return nil, err
	}
	out := api.ReplayDeadLetters200JSONResponse{
		Replayed:  int32(done.Replayed),
		Remaining: done.Remaining,
	}
	if done.Next != (deadletters.ID{}) {
		out.Next = new(done.Next.String())
	}
	out.Refused = make([]struct {
		Code    string `json:"code"`
		ID      string `json:"id"`
		Message string `json:"message"`
	}, len(done.Refused))
	for i, refused := range done.Refused {
		out.Refused[i].ID, out.Refused[i].Code, out.Refused[i].Message = refused.ID.String(), refused.Why.Reason, refused.Why.Error()
	}
	return out, nil
}

// replaysOf returns the replays that a body asks for, and an [errs.Invalid] about its bad fields.
func replaysOf(body *api.DeadLetterReplayAll) (all deadletters.ReplayAll, err error) {
	all.Limit = defaultReplays
	if body == nil {
		return all, nil
	}
	var bad []errs.Field
	if body.EndpointID != nil {
		if all.EndpointID, err = endpoints.ParseID(*body.EndpointID); err != nil {
			bad = append(bad, errs.Field{
				Field:   "endpointId",
				Code:    "invalid_id",
				Message: noEndpointID,
			})
		}
	}
	if body.After != nil {
		if all.After, err = deadletters.ParseID(*body.After); err != nil {
			bad = append(bad, errs.Field{
				Field:   "after",
				Code:    "invalid_id",
				Message: "must be the ID of a dead letter, such as dl_0193466f-2a10-8c3e-9d41-5a2f6c7d8e90: next of the response before",
			})
		}
	}
	set(&all.Reason, body.ReasonCode)
	set(&all.NewKey, body.NewIdempotencyKey)
	if n := body.PerMinute; n != nil {
		all.PerMinute = int(*n)
		if *n < 1 || *n > maxPerMinute {
			bad = append(bad, errs.Field{
				Field:   "perMinute",
				Code:    "out_of_range",
				Message: "must be 1 to 60000; leave it out to start all at once",
			})
		}
	}
	if n := body.Limit; n != nil {
		all.Limit = int(*n)
		if *n < 1 || *n > maxReplays {
			bad = append(bad, errs.Field{
				Field:   "limit",
				Code:    "out_of_range",
				Message: "must be 1 to 500",
			})
		}
	}
	return all, errs.InvalidFields(bad)
}

// DiscardDeadLetter marks a dead letter as handled without a run.
func (s *Server) DiscardDeadLetter(ctx context.Context, r api.DiscardDeadLetterRequestObject) (api.DiscardDeadLetterResponseObject, error) {
	id, err := deadletters.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(deadletters.CheckReason(r.Body.Reason))
	}
	l, err := s.letters.Discard(ctx, actorOf(ctx), id, r.Body.Reason)
	if err != nil {
		return nil, err
	}
	return api.DiscardDeadLetter200JSONResponse(letterAnswer(l)), nil
}

// letterAnswer returns a dead letter as users see it, without request and response.
func letterAnswer(l deadletters.Letter) api.DeadLetter {
	out := api.DeadLetter{
		ID:            l.ID.String(),
		RunID:         l.RunID().String(),
		EndpointID:    ownerName(l.Call, l.EndpointID),
		ScheduledFor:  l.ScheduledFor.UTC(),
		CreatedAt:     l.CreatedAt.UTC(),
		Attempts:      int32(l.Attempt),
		InfraAttempts: int32(l.InfraAttempt),
		Status:        api.RunStatus(l.Status),
		ReasonCode:    string(l.Reason),
		Error:         optional(l.Error),
		ContentType:   optional(l.ContentType),
		State:         api.DeadLetterState(l.State),
		HandledAt:     shown(l.HandledAt),
		HandledBy:     optional(l.HandledBy),
		Reason:        optional(l.HandledReason),
	}
	if l.StatusCode != 0 {
		out.StatusCode = new(int32(l.StatusCode))
	}
	if !l.ReplaySlot.IsZero() {
		out.ReplayRunID = new(l.ReplayID().String())
	}
	return out
}
