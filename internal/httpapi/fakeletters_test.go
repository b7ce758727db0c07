package httpapi_test

import (
	"context"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/calls"
	"rubato/internal/deadletters"
	"rubato/internal/errs"
	"rubato/internal/runs"
	"rubato/internal/secrets"
)

// letters is a deadletters.Store that keeps one dead letter, which stays open.
type letters struct{ *memory }

var _ deadletters.Store = letters{}

// sampleLetter is the dead letter of the failed sample run.
func sampleLetter() deadletters.Letter {
	run := samples()[1]
	return deadletters.Letter{
		ID: deadletters.ID(run.ID), TenantID: run.TenantID, EndpointID: run.EndpointID, ScheduledFor: run.ScheduledFor, CreatedAt: run.FinishedAt,
		Attempt: 1, Status: runs.Failed, Reason: runs.HTTPStatus, StatusCode: 503, ContentType: "text/plain", Body: []byte("closed"),
		Sealed: secrets.Sealed{Data: []byte(`{"request":{"url":"https://api.example.com/","method":"POST","headers":{"X-Token":"t"},"body":"it's"},"key":"run_x","version":1}`)},
		State:  deadletters.Open,
	}
}

func (l letters) List(_ context.Context, f deadletters.Filter) ([]deadletters.Letter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil || f.TenantID != sampleLetter().TenantID {
		return nil, l.err
	}
	return []deadletters.Letter{sampleLetter()}, nil
}

func (l letters) Get(_ context.Context, tenant [16]byte, id deadletters.ID) (deadletters.Letter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return deadletters.Letter{}, l.err
	}
	if found := sampleLetter(); found.ID == id && found.TenantID == tenant {
		return found, nil
	}
	return deadletters.Letter{}, errs.New(errs.NotFound, "", "there is no such dead letter")
}

func (l letters) Replay(ctx context.Context, by auditlog.Actor, found deadletters.Letter, change deadletters.Change) error {
	_, err := l.Change(ctx, auditlog.Act{By: by, Action: auditlog.RunNow}, found.EndpointID, change)
	return err
}

func (l letters) ReplayCall(
	context.Context, auditlog.Actor, deadletters.Letter, func(*calls.Call, time.Time) (*calls.Call, error),
) (*calls.Call, error) {
	panic("the sample dead letter is one of an endpoint")
}

func (l letters) Discard(ctx context.Context, by auditlog.Actor, id deadletters.ID, reason string) (deadletters.Letter, error) {
	found, err := l.Get(ctx, by.TenantID, id)
	if err == nil {
		l.writes++
	}
	found.State, found.HandledBy, found.HandledAt, found.HandledReason = deadletters.Discarded, by.Name, now, reason
	return found, err
}
