package openai

import (
	"context"
	"time"

	"rubato/internal/planner"
)

// toolHandler executes one call of the model and returns the reply to the model.
type toolHandler func(ctx context.Context, s *session, a arguments) (any, error)

// toolHandlers returns the handler of each tool. The submission has none, because it ends the
// session.
func toolHandlers() map[planner.Tool]toolHandler {
	return map[planner.Tool]toolHandler{
		planner.ToolLatestResponse:   readLatest,
		planner.ToolResponseHistory:  readHistory,
		planner.ToolSiblingResponses: readSiblings,
		planner.ToolProposeInterval: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.proposalReply(s.tools.ProposeInterval(ctx, planner.IntervalProposal{
				Interval: a.seconds("interval_seconds"),
				TTL:      a.minutes("ttl_minutes"),
				Reason:   a.texts["reason"],
			}))
		},
		planner.ToolProposeNextRun: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.proposalReply(s.tools.ProposeNextRun(ctx, planner.NextRunProposal{
				In:     a.seconds("in_seconds"),
				TTL:    a.minutes("ttl_minutes"),
				Reason: a.texts["reason"],
			}))
		},
		planner.ToolPauseUntil: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.proposalReply(s.tools.PauseUntil(ctx, planner.PauseProposal{For: a.minutes("minutes"), Reason: a.texts["reason"]}))
		},
		planner.ToolClearHints: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.proposalReply(s.tools.ClearHints(ctx, a.texts["reason"]))
		},
	}
}

// accepted is the reply to a proposal that the guardrails accepted.
type accepted struct {
	Accepted bool    `json:"accepted"`
	Interval float64 `json:"interval_s,omitempty"`
	Note     string  `json:"note,omitempty"`
}

func (s *session) proposalReply(r planner.ProposalResult, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	s.conversation.proposed = true
	return accepted{
		Accepted: true,
		Interval: seconds(r.Interval),
		Note:     r.Note,
	}, nil
}

// responseView is a captured response in the form for the model: typed values first, then the body
// as one text.
type responseView struct {
	Of     string         `json:"of,omitempty"`
	Status string         `json:"status"`
	Code   int            `json:"code,omitempty"`
	Took   int64          `json:"ms"`
	Ago    int64          `json:"s_ago"`
	Type   string         `json:"type,omitempty"`
	Values map[string]any `json:"values,omitempty"`
	Data   string         `json:"data,omitempty"`
	Cut    bool           `json:"cut,omitempty"`
}

// responseOverhead is the size of a response without its values and its body, in tokens.
const responseOverhead = 60

// newResponseView converts a response. Its untrusted parts take at most room tokens and size bytes.
func newResponseView(now time.Time, r planner.Response, room int64, size int) responseView {
	s := responseView{
		Status: cleanText(r.Status, maxWord),
		Code:   r.StatusCode,
		Took:   r.Latency.Milliseconds(),
		Ago:    int64(now.Sub(r.At).Seconds()),
		Type:   cleanText(r.ContentType, maxWord),
	}
	room -= responseOverhead
	s.Values = values(r.Features, maxFeatures)
	for name, value := range s.Values {
		text, _ := value.(string)
		if room -= untrustedTokens(name+text) + 12; room < 0 {
			delete(s.Values, name)
		}
	}
	body, cut := truncate(r.Body, max(room, 0), size)
	s.Data, s.Cut = body, cut || r.Truncated
	return s
}

func readLatest(ctx context.Context, s *session, _ arguments) (any, error) {
	r, err := s.tools.LatestResponse(ctx)
	if err != nil {
		return nil, err
	}
	return newResponseView(s.snapshot.At, r, s.conversation.readBudget(), planner.MaxBody), nil
}

func readHistory(ctx context.Context, s *session, a arguments) (any, error) {
	list, err := s.tools.ResponseHistory(ctx, int(a.numbers["limit"]))
	if err != nil {
		return nil, err
	}
	room := s.conversation.readBudget()
	fit := int(max(room/(responseOverhead+20), 1)) // more would leave no room for their content
	list = list[:min(len(list), planner.MaxResponses, fit)]
	answer := make([]responseView, 0, len(list))
	for _, r := range list {
		answer = append(answer, newResponseView(s.snapshot.At, r, room/int64(len(list)), planner.MaxBody/len(list)))
	}
	return answer, nil
}

func readSiblings(ctx context.Context, s *session, _ arguments) (any, error) {
	list, err := s.tools.SiblingResponses(ctx)
	if err != nil {
		return nil, err
	}
	room := s.conversation.readBudget()
	list = list[:min(len(list), maxSiblings, int(max(room/(responseOverhead+20), 1)))]
	answer := make([]responseView, 0, len(list))
	for _, r := range list {
		one := newResponseView(s.snapshot.At, r.Response, room/int64(len(list)), planner.MaxBody/len(list))
		one.Of = cleanText(r.Sibling, maxName)
		answer = append(answer, one)
	}
	return answer, nil
}
