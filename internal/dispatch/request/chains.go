package request

import (
	"context"
	"encoding/json"
	"net/http"

	"rubato/internal/auditlog"
	"rubato/internal/chains"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// Chains is the part of [chains.Service] that endpoints with the URL chain:NAME use.
type Chains interface {
	Start(ctx context.Context, by auditlog.Actor, name string, input json.RawMessage, key string) (r chains.Record, created bool, err error)
	Record(ctx context.Context, tenant [16]byte, id chains.RunID) (chains.Record, error)
}

// chainPoll is the interval in seconds at which the end of a chain is looked for, in case that its
// wake was lost. The first look comes soon, because a short chain may end before its run waits.
const (
	chainPollFirst = "1"
	chainPoll      = "10"
)

// askChain answers a request to a chain as an asynchronous target would. POST chain:NAME starts a
// run of the chain with the body as its input, and GET chain:ID returns the state of a run.
func (c *Caller) askChain(ctx context.Context, r egress.Request, of string) egress.Response {
	if c.cfg.Chains == nil {
		return chainFault(errs.New(errs.Unavailable, "", "this program cannot start chains"))
	}
	if r.Method != http.MethodPost {
		id, err := chains.ParseRunID(of)
		if err != nil {
			return chainFault(err)
		}
		record, err := c.cfg.Chains.Record(ctx, r.Tenant, id)
		if err != nil {
			return chainFault(err)
		}
		return chainState(record, chainPoll)
	}
	by := auditlog.Actor{TenantID: r.Tenant, Name: "run " + r.Meta.Get("Rubato-Run-Id")}
	record, _, err := c.cfg.Chains.Start(ctx, by, of, r.Body, r.Meta.Get("Idempotency-Key"))
	if err != nil {
		return chainFault(err)
	}
	return chainState(record, chainPollFirst)
}

// chainState returns the answer about a run of a chain: 202 in progress, 200 with its outputs after
// success, 424 (RFC 4918 section 11.4) otherwise.
func chainState(r chains.Record, poll string) egress.Response {
	state := map[string]any{"id": r.ID.String(), "status": r.Status}
	switch {
	case !r.Status.Over():
		answer := jsonAnswer(http.StatusAccepted, state)
		answer.Header.Set(statusHeader, endpoints.ChainURL(r.ID.String()))
		answer.Header.Set("Retry-After", poll)
		return answer
	case r.Status == chains.Succeeded:
		return jsonAnswer(http.StatusOK, r.Output)
	default:
		state["reason"] = r.Reason
		return jsonAnswer(http.StatusFailedDependency, state)
	}
}

// chainFault returns the answer to a request that a chain refuses.
func chainFault(err error) egress.Response {
	code := http.StatusServiceUnavailable
	switch errs.CodeOf(err) { //nolint:exhaustive // All others are faults of the server.
	case errs.Invalid, errs.Malformed:
		code = http.StatusUnprocessableEntity
	case errs.NotFound:
		code = http.StatusNotFound
	case errs.Conflict:
		code = http.StatusConflict
	case errs.Exhausted:
		code = http.StatusTooManyRequests
	}
	body := map[string]any{"error": err.Error()}
	if code == http.StatusServiceUnavailable { // The cause is for the log of the program.
		body["error"] = "the chain cannot be reached at the moment"
	}
	if fields := errs.FieldsOf(err); len(fields) > 0 {
		body["fields"] = fields
	}
	return jsonAnswer(code, body)
}

// jsonAnswer returns an answer with a JSON body.
func jsonAnswer(code int, value any) egress.Response {
	body, err := json.Marshal(value)
	if err != nil {
		code, body = http.StatusInternalServerError, nil
	}
	return egress.Response{
		StatusCode: code,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       body,
		BytesRead:  int64(len(body)),
	}
}
