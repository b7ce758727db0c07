package openai

import (
	"context"
	"time"

	"rubato/internal/planner"
)

// act carries out one call at the desk, and returns what the model is told. room is how many tokens what it reads may take.
type act func(ctx context.Context, s *session, a arguments) (any, error)

// acts returns what each tool does. Submitting is not among them: it ends the session.
func acts() map[planner.Tool]act {
	return map[planner.Tool]act{
		planner.ToolLatestResponse:   readLatest,
		planner.ToolResponseHistory:  readHistory,
		planner.ToolSiblingResponses: readSiblings,
		planner.ToolProposeInterval: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.ruled(s.desk.ProposeInterval(ctx, planner.IntervalProposal{
				Interval: a.seconds("interval_seconds"), TTL: a.minutes("ttl_minutes"), Reason: a.texts["reason"],
			}))
		},
		planner.ToolProposeNextRun: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.ruled(s.desk.ProposeNextRun(ctx, planner.NextRunProposal{
				In: a.seconds("in_seconds"), TTL: a.minutes("ttl_minutes"), Reason: a.texts["reason"],
			}))
		},
		planner.ToolPauseUntil: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.ruled(s.desk.PauseUntil(ctx, planner.PauseProposal{For: a.minutes("minutes"), Reason: a.texts["reason"]}))
		},
		planner.ToolClearHints: func(ctx context.Context, s *session, a arguments) (any, error) {
			return s.ruled(s.desk.ClearHints(ctx, a.texts["reason"]))
		},
	}
}

// accepted is what the model is told of a proposal that the rails let pass.
type accepted struct {
	Accepted bool    `json:"accepted"`
	Interval float64 `json:"interval_s,omitempty"`
	Note     string  `json:"note,omitempty"`
}

func (s *session) ruled(r planner.Ruling, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	s.talk.proposed = true
	return accepted{Accepted: true, Interval: seconds(r.Interval), Note: r.Note}, nil
}

// shown is a response as the model sees it: what is typed first, and the body as one text.
type shown struct {
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

// frame is what a response takes beside its values and its body, in tokens.
const frame = 60

// show returns a response of which the parts that anybody may have written take at most room tokens and size bytes.
func show(now time.Time, r planner.Response, room int64, size int) shown {
	s := shown{
		Status: word(r.Status, maxWord), Code: r.StatusCode, Took: r.Latency.Milliseconds(), Ago: int64(now.Sub(r.At).Seconds()),
		Type: word(r.ContentType, maxWord),
	}
	room -= frame
	s.Values = values(r.Features, maxFeatures)
	for name, value := range s.Values {
		text, _ := value.(string)
		if room -= theirs(name+text) + 12; room < 0 {
			delete(s.Values, name)
		}
	}
	body, cut := fitting(r.Body, max(room, 0), size)
	s.Data, s.Cut = body, cut || r.Truncated
	return s
}

func readLatest(ctx context.Context, s *session, _ arguments) (any, error) {
	r, err := s.desk.LatestResponse(ctx)
	if err != nil {
		return nil, err
	}
	return show(s.about.At, r, s.talk.room(), planner.MaxBody), nil
}

func readHistory(ctx context.Context, s *session, a arguments) (any, error) {
	list, err := s.desk.ResponseHistory(ctx, int(a.numbers["limit"]))
	if err != nil {
		return nil, err
	}
	room := s.talk.room()
	fit := int(max(room/(frame+20), 1)) // More of them would leave no room for what they say.
	list = list[:min(len(list), planner.MaxResponses, fit)]
	answer := make([]shown, 0, len(list))
	for _, r := range list {
		answer = append(answer, show(s.about.At, r, room/int64(len(list)), planner.MaxBody/len(list)))
	}
	return answer, nil
}

func readSiblings(ctx context.Context, s *session, _ arguments) (any, error) {
	list, err := s.desk.SiblingResponses(ctx)
	if err != nil {
		return nil, err
	}
	room := s.talk.room()
	list = list[:min(len(list), maxSiblings, int(max(room/(frame+20), 1)))]
	answer := make([]shown, 0, len(list))
	for _, r := range list {
		one := show(s.about.At, r.Response, room/int64(len(list)), planner.MaxBody/len(list))
		one.Of = word(r.Sibling, maxName)
		answer = append(answer, one)
	}
	return answer, nil
}
