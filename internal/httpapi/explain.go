package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oapi-codegen/runtime"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/httpapi/api"
)

// Explain answers a what-if: the JSON of an ExplainInput in, the JSON of a Decision out, as the
// contract describes them. The instant now is that of the decision where the input names none. The
// error is an [errs.Error]: Malformed where the input cannot be read, Invalid where it breaks
// rules. It is the route POST /v1/explain without the server.
func Explain(body []byte, now time.Time) ([]byte, error) {
	in, err := readInput(body, contract().explain)
	if err != nil {
		return nil, err
	}
	decision, err := whatIf(in, now)
	if err != nil {
		return nil, err
	}
	answer, err := json.Marshal(decision)
	if err != nil {
		return nil, errs.Wrap(err, errs.Internal, "writing the decision failed")
	}
	return answer, nil
}

// Explain answers a what-if.
func (s *Server) Explain(ctx context.Context, _ api.ExplainRequestObject) (api.ExplainResponseObject, error) {
	decision, err := whatIf(inputOf(ctx), time.Now())
	if err != nil {
		return nil, err
	}
	return api.Explain200JSONResponse(decision), nil
}

// whatIf decides on the facts of an input.
func whatIf(in *input, now time.Time) (api.Decision, error) {
	var facts api.ExplainInput
	if err := runtime.BindJSONValue(in.value, &facts); err != nil {
		return api.Decision{}, fmt.Errorf("binding a what-if: %w", err)
	}
	spec, err := endpoints.ReadSpec(in.value)
	if err != nil {
		return api.Decision{}, fmt.Errorf("reading the schedule of a what-if: %w", err)
	}
	q := newQuestion(spec, facts, now)
	in.malformed = append(in.malformed, q.malformed...)
	q.bad = append(q.bad, errs.FieldsOf(q.checkSchedule())...)
	if err := in.refuse(errs.InvalidFields(q.bad)); err != nil {
		return api.Decision{}, err
	}
	cron, err := q.spec.ParseCron(q.id)
	if err != nil {
		return api.Decision{}, err
	}
	if cron != nil { // A nil *Cron in the interface would not be a nil interface.
		q.in.Baseline.Cron = cron
	}
	d := governor.Decide(q.in)
	return decisionAnswer(d.At, d.Source, d.Steps), nil
}

// checkSchedule judges the schedule as that of a registered endpoint.
func (q *question) checkSchedule() error {
	spec := q.spec
	spec.Name, spec.URL = "what if", "https://example.com/" // No part of the question.
	return endpoints.NewValidator(anyTarget{}).Check(q.id, spec.Normalize())
}

// anyTarget lets everything be called: a what-if calls nothing.
type anyTarget struct{}

// CheckURL finds nothing wrong.
func (anyTarget) CheckURL(string) *errs.Field { return nil }

// CheckHeader finds nothing wrong.
func (anyTarget) CheckHeader(_, _ string) *errs.Field { return nil }

// PermitsSkipVerify implements [endpoints.Permissions]: nothing is called here.
func (anyTarget) PermitsSkipVerify() bool { return true }

// For implements [endpoints.Permissions].
func (t anyTarget) For([16]byte) endpoints.Targets { return t }
