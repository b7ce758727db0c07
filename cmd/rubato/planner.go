package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"rubato/client"
)

// plannerCmd is `rubato planner`.
type plannerCmd struct {
	Sessions    plannerSessionsCmd    `cmd:"" help:"Print analyses, newest first, with their changes and reasons."`
	Session     plannerSessionCmd     `cmd:"" help:"Print one analysis with all its tool calls."`
	Undo        plannerUndoCmd        `cmd:"" help:"Undo the changes of an analysis. They are not repeated for at least four hours."`
	Suggestions plannerSuggestionsCmd `cmd:"" help:"Print the planner's suggestions, newest first."`
	Approve     plannerApproveCmd     `cmd:"" help:"Approve a suggestion."`
	Reject      plannerRejectCmd      `cmd:"" help:"Reject a suggestion."`
	Budget      plannerBudgetCmd      `cmd:"" help:"Print today's token usage and budgets of models."`
}

type (
	plannerSessionsCmd struct {
		serverFlag

		Endpoint string `help:"Filter by endpoint, given as id or key."`
		Outcome  string `help:"Filter by outcome, such as acted or failed."`
		Limit    int32  `default:"50" help:"Maximum number of results."`
		Cursor   string `help:"Cursor of the next page, from the previous list."`
	}
	plannerSessionCmd struct {
		serverFlag

		ID string `arg:"" name:"session" help:"Analysis id (ps_...)."`
	}
	plannerUndoCmd struct {
		serverFlag

		ID string `arg:"" name:"session" help:"Analysis id (ps_...)."`
	}
	plannerSuggestionsCmd struct {
		serverFlag

		Endpoint string `help:"Filter by endpoint, given as id or key."`
		State    string `enum:",pending,approved,rejected,replaced,expired" default:"" placeholder:"STATE" help:"Filter by state, such as pending."`
		Limit    int32  `default:"50" help:"Maximum number of results."`
		Cursor   string `help:"Cursor of the next page, from the previous list."`
	}
	suggestionArg struct {
		serverFlag

		ID string `arg:"" name:"suggestion" help:"Suggestion id (sg_...)."`
	}
	plannerApproveCmd struct{ suggestionArg }
	plannerRejectCmd  struct{ suggestionArg }
	plannerBudgetCmd  struct{ serverFlag }
)

// Run lists analyses.
func (cmd *plannerSessionsCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	params := &client.ListPlannerSessionsParams{
		Outcome: given(client.PlannerOutcome(cmd.Outcome)),
		Limit:   &cmd.Limit,
		Cursor:  given(cmd.Cursor),
	}
	if params.EndpointID, err = r.endpointNamed(ctx, cmd.Endpoint); err != nil {
		return err
	}
	raw, err := r.read(r.api.ListPlannerSessionsWithResponse(ctx, params))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"AT", "OUTCOME", "ADVISOR", "BECAUSE", "CHANGES", "ENDPOINT", "ID"}, func(p client.PlannerSession) []string {
		return []string{
			instant(&p.StartedAt), string(p.Outcome), p.Advisor, string(p.Trigger), dash(strings.Join(p.Changes, "; ")), p.EndpointID, p.ID,
		}
	})
}

// endpointNamed returns the id of an endpoint given as id or key, or nil if name is empty.
func (r *remote) endpointNamed(ctx context.Context, name string) (*string, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // nil: no filter
	}
	id, err := r.endpointID(ctx, name)
	return &id, err
}

// Run prints an analysis.
func (cmd *plannerSessionCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetPlannerSessionWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return show(s, raw, func(p client.PlannerSession) error {
		facts := [][2]string{
			{"id", p.ID},
			{"endpoint", p.EndpointID},
			{"at", instant(&p.StartedAt)},
			{"advisor", p.Advisor},
			{"authority", p.Authority},
			{"because", string(p.Trigger)},
			{"outcome", string(p.Outcome)},
			{"reasoning", p.Reasoning},
			{"confidence", strconv.FormatFloat(p.Confidence, 'f', -1, 64)},
			{"next analysis", instant(&p.NextAnalysisAt)},
			{"tokens", fmt.Sprint(p.Usage.PromptTokens + p.Usage.CompletionTokens)},
			{"cost", dollars(p.Usage.CostMicros)},
			{"error", text(p.Error)},
		}
		for _, change := range p.Changes {
			facts = append(facts, [2]string{"change", change})
		}
		for _, warning := range p.Warnings {
			facts = append(facts, [2]string{"warning", warning})
		}
		return s.facts(append(facts, callFacts(p.Calls)...))
	})
}

// Run undoes the changes of an analysis.
func (cmd *plannerUndoCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.UndoPlannerSessionWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return s.printEndpoint(raw)
}

// dollars formats millionths of a US dollar; it is empty for zero, because zero means that the
// price is unknown.
func dollars(micros int64) string {
	if micros == 0 {
		return ""
	}
	return "$" + strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64)
}

func callFacts(calls *[]client.PlannerCall) [][2]string {
	var facts [][2]string
	if calls == nil {
		return nil
	}
	for _, c := range *calls {
		line := c.Tool
		if arguments, err := json.Marshal(c.Arguments); err == nil && c.Arguments != nil {
			line += " " + string(arguments)
		}
		if c.Refused {
			line += ", refused"
		}
		facts = append(facts, [2]string{"call", line + ": " + c.Result})
	}
	return facts
}

func suggestionHeader() []string {
	return []string{"AT", "STATE", "CHANGES", "WHY", "UNTIL", "ENDPOINT", "ID"}
}

func suggestionRow(p client.PlannerSuggestion) []string {
	return []string{
		instant(&p.CreatedAt), string(p.State), dash(strings.Join(p.Changes, "; ")), dash(p.Reasoning), instant(&p.ExpiresAt), p.EndpointID, p.ID,
	}
}

// Run lists suggestions.
func (cmd *plannerSuggestionsCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	params := &client.ListPlannerSuggestionsParams{
		State:  given(client.PlannerSuggestionState(cmd.State)),
		Limit:  &cmd.Limit,
		Cursor: given(cmd.Cursor),
	}
	if params.EndpointID, err = r.endpointNamed(ctx, cmd.Endpoint); err != nil {
		return err
	}
	raw, err := r.read(r.api.ListPlannerSuggestionsWithResponse(ctx, params))
	if err != nil {
		return err
	}
	return list(s, raw, suggestionHeader(), suggestionRow)
}

// Run approves a suggestion.
func (cmd *plannerApproveCmd) Run(ctx context.Context, s *session) error {
	return s.decided(func(r *remote) (json.RawMessage, error) {
		return r.read(r.api.ApprovePlannerSuggestionWithResponse(ctx, cmd.ID))
	})
}

// Run rejects a suggestion.
func (cmd *plannerRejectCmd) Run(ctx context.Context, s *session) error {
	return s.decided(func(r *remote) (json.RawMessage, error) {
		return r.read(r.api.RejectPlannerSuggestionWithResponse(ctx, cmd.ID))
	})
}

// decided calls decide and prints the suggestion afterwards.
func (s *session) decided(decide func(*remote) (json.RawMessage, error)) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := decide(r)
	if err != nil {
		return err
	}
	return show(s, raw, func(p client.PlannerSuggestion) error {
		return s.facts([][2]string{
			{"id", p.ID}, {"endpoint", p.EndpointID}, {"state", string(p.State)}, {"changes", strings.Join(p.Changes, "; ")}, {"by", text(p.DecidedBy)},
		})
	})
}

// Run prints the budget.
func (cmd *plannerBudgetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetPlannerBudgetWithResponse(ctx))
	if err != nil {
		return err
	}
	return show(s, raw, func(b client.PlannerBudget) error {
		spent := make([][2]string, len(b.Endpoints))
		for i, e := range b.Endpoints {
			spent[i] = [2]string{"endpoint", fmt.Sprintf("%s %d", e.EndpointID, e.Tokens)}
		}
		return s.facts(append([][2]string{
			{"day", b.Day},
			{"tokens", fmt.Sprintf("%d of %d", b.Tokens, b.TokenLimit)},
			{"left", fmt.Sprint(b.TokensLeft)},
			{"per endpoint", fmt.Sprint(b.EndpointTokenLimit)},
			{"reset", instant(&b.ResetAt)},
		}, spent...))
	})
}
