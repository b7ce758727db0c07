package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/contract"
	"rubato/internal/notation"
	"rubato/internal/sourcetext"
)

// endpointsCmd is `rubato endpoints`.
type endpointsCmd struct {
	endpointsEditCmds

	Create      endpointsCreateCmd      `cmd:"" help:"Register an endpoint, from flags or from a JSON file."`
	Get         endpointsGetCmd         `cmd:"" help:"Print one endpoint."`
	List        endpointsListCmd        `cmd:"" help:"Print endpoints, newest first."`
	Preview     endpointsPreviewCmd     `cmd:"" help:"Print the next due times of an endpoint."`
	Explain     endpointsExplainCmd     `cmd:"" help:"Explain the next due time of an endpoint, rule by rule."`
	Versions    endpointsVersionsCmd    `cmd:"" help:"Print the versions of an endpoint, newest first, or one version in full."`
	Decisions   endpointsDecisionsCmd   `cmd:"" help:"Print the decisions about an endpoint, newest first."`
	Tempo       endpointsTempoCmd       `cmd:"" help:"Print the rate of change, price and interval of an endpoint, and the changes found in the last 24 hours."`
	Shadow      endpointsShadowCmd      `cmd:"" help:"Score another policy on the recorded runs of an endpoint: runs saved, and how much sooner it finds changes."`
	Routability endpointsRoutabilityCmd `cmd:"" help:"Explain which workers run an endpoint, by their tags."`
	Health      endpointsHealthCmd      `cmd:"" help:"Print success rate and latency of an endpoint over the last hour, 4 hours and 24 hours."`
	Pause       endpointsPauseCmd       `cmd:"" help:"Pause an endpoint. A run in progress continues."`
	Resume      endpointsResumeCmd      `cmd:"" help:"End a pause at once."`
	Run         endpointsRunCmd         `cmd:"" help:"Start a one-off run of an endpoint, in addition to its schedule; the request can be changed by flags."`
	Test        endpointsTestCmd        `cmd:"" help:"Send the request of an endpoint once and print the response. Schedule and history do not change."`
	Apply       endpointsApplyCmd       `cmd:"" help:"Create and update endpoints from files; the plan is printed first. For example: rubato endpoints apply -f endpoints.yaml"`
	Export      endpointsExportCmd      `cmd:"" help:"Write endpoints as lines of JSON. For example: rubato endpoints export --label team=shop > endpoints.ndjson"`
	Import      endpointsImportCmd      `cmd:"" help:"Create and replace many endpoints, one per line. For example: rubato endpoints import -f endpoints.ndjson"`
	Delete      endpointsDeleteCmd      `cmd:"" help:"Delete (archive) an endpoint; its history stays."`
}

// endpointArg is the argument of commands on one endpoint.
type endpointArg struct {
	serverFlag

	Endpoint string `arg:"" help:"Endpoint id (ep_...) or key."`
}

type (
	endpointsGetCmd   struct{ endpointArg }
	endpointsPauseCmd struct {
		endpointArg
		Until  time.Time      `xor:"end" placeholder:"TIME" help:"End of the pause, such as 2026-03-01T12:00:00Z. Default: until it is resumed."`
		For    *time.Duration `xor:"end" placeholder:"DURATION" help:"Duration of the pause."`
		Reason string         `help:"Reason, shown to other users."`
	}
	endpointsResumeCmd struct{ endpointArg }
	endpointsDeleteCmd struct {
		endpointArg

		IfVersion *int64 `placeholder:"N" help:"Fail unless the endpoint has this version."`
		Yes       bool   `short:"y" help:"Do not ask for confirmation."`
	}
	endpointsListCmd struct {
		serverFlag

		Label      []string `placeholder:"NAME=VALUE" sep:"none" help:"Filter by label; may be repeated."`
		Key        string   `help:"Filter by key."`
		NamePrefix string   `help:"Filter by name prefix."`
		Host       string   `placeholder:"HOST:PORT" help:"Filter by target host, such as api.example.com:8443; the default port is 443."`
		State      string   `enum:",active,paused,archived" default:"" placeholder:"STATE" help:"Filter by state: active, paused or archived. Default: all but archived."`
		Limit      int32    `default:"50" help:"Maximum number of results."`
		Cursor     string   `help:"Cursor of the next page, from the previous list."`
	}
)

// Run prints an endpoint.
func (cmd *endpointsGetCmd) Run(ctx context.Context, s *session) error {
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.GetEndpointWithResponse(ctx, id))
	})
}

// Run pauses an endpoint.
func (cmd *endpointsPauseCmd) Run(ctx context.Context, s *session) error {
	body := client.PauseRequest{Reason: given(cmd.Reason)}
	if cmd.For != nil {
		body.ForMs = new(cmd.For.Milliseconds())
	}
	if !cmd.Until.IsZero() {
		body.Until = new(cmd.Until.UTC())
	}
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.PauseEndpointWithResponse(ctx, id, body))
	})
}

// Run resumes an endpoint.
func (cmd *endpointsResumeCmd) Run(ctx context.Context, s *session) error {
	return s.onEndpoint(ctx, cmd.Endpoint, func(r *remote, id string) (json.RawMessage, error) {
		return r.read(r.api.ResumeEndpointWithResponse(ctx, id))
	})
}

// Run archives an endpoint. Without --yes it asks for confirmation first.
func (cmd *endpointsDeleteCmd) Run(ctx context.Context, s *session) error {
	if !cmd.Yes && !s.askable() {
		return usageError{"standard input is not a terminal, so the deletion cannot be confirmed: add --yes"}
	}
	r, id, err := s.connectTo(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	if !cmd.Yes {
		question, err := r.deletion(ctx, id)
		if err != nil {
			return err
		}
		if err := s.confirm(ctx, question); err != nil {
			return err
		}
	}
	if _, err := r.read(r.api.ArchiveEndpointWithResponse(ctx, id, &client.ArchiveEndpointParams{IfMatch: versionTag(cmd.IfVersion)})); err != nil {
		return err
	}
	if s.json {
		return s.print(map[string]string{"archived": id})
	}
	return s.say("%s is deleted", id)
}

// deletion returns the question for the confirmation, with the name and the key of the endpoint.
func (r *remote) deletion(ctx context.Context, id string) (string, error) {
	raw, err := r.read(r.api.GetEndpointWithResponse(ctx, id))
	if err != nil {
		return "", err
	}
	var e client.Endpoint
	if err := decode(raw, &e); err != nil {
		return "", err
	}
	names := id
	if e.Key != nil {
		names = "key " + *e.Key + ", " + id
	}
	return fmt.Sprintf("Delete %q (%s), which calls %s %s?", e.Name, names, e.Method, e.URL), nil
}

// Run lists endpoints.
func (cmd *endpointsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	labels, err := labelFilters(cmd.Label)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListEndpointsWithResponse(ctx, &client.ListEndpointsParams{
		Label:      labels,
		Key:        given(cmd.Key),
		NamePrefix: given(cmd.NamePrefix),
		Host:       given(cmd.Host),
		State:      given(client.EndpointState(cmd.State)),
		Limit:      &cmd.Limit,
		Cursor:     given(cmd.Cursor),
	}))
	if err != nil {
		return err
	}
	header := []string{"NAME", "STATE", "SCHEDULE", "NEXT RUN", "BECAUSE", "LAST", "LABELS", "ID"}
	return list(s, raw, header, func(e client.Endpoint) []string {
		return []string{e.Name, string(e.State), schedule(e), dash(instant(e.NextRunAt)), dash(sourcetext.Next(e)), lastStatus(e), dash(labelWords(e.Labels)), e.ID}
	})
}

// labelFilters converts filters of the form NAME=VALUE to the format of the API.
func labelFilters(given []string) (*[]string, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // nil: no filter
	}
	filters := make([]string, 0, len(given))
	for _, label := range given {
		name, value, found := notation.CutPair(label, '=')
		if !found {
			return nil, usageError{fmt.Sprintf("the label %s: write NAME=VALUE", label)}
		}
		filters = append(filters, notation.JoinPair(name, ":", value))
	}
	return &filters, nil
}

// labelWords formats labels like values of the flag --label.
func labelWords(labels map[string]string) string {
	return strings.Join(notation.ListPairs(labels, "="), " ")
}

// onEndpoint calls do for an endpoint, given as id or key, and prints the returned endpoint.
func (s *session) onEndpoint(ctx context.Context, name string, do func(r *remote, id string) (json.RawMessage, error)) error {
	r, id, err := s.connectTo(ctx, name)
	if err != nil {
		return err
	}
	raw, err := do(r, id)
	if err != nil {
		return err
	}
	return s.printEndpoint(raw)
}

// connectTo returns a client, and the id of an endpoint given as id or key.
func (s *session) connectTo(ctx context.Context, name string) (*remote, string, error) {
	r, err := s.connect()
	if err != nil {
		return nil, "", err
	}
	id, err := r.endpointID(ctx, name)
	return r, id, err
}

// idLength is the length of an endpoint id: ep_ and a UUID.
const idLength = len("ep_") + 36

// endpointID returns the id of an endpoint that is given as id or key. A key costs one request.
func (r *remote) endpointID(ctx context.Context, name string) (string, error) {
	// The length distinguishes an id, because a key may start with ep_.
	if strings.HasPrefix(name, "ep_") && len(name) == idLength {
		return name, nil
	}
	raw, err := r.read(r.api.ListEndpointsWithResponse(ctx, &client.ListEndpointsParams{Key: &name}))
	if err != nil {
		return "", err
	}
	var found client.EndpointList
	if err := decode(raw, &found); err != nil {
		return "", err
	}
	if len(found.Items) == 0 {
		return "", &client.Problem{
			Type:   "about:blank",
			Title:  http.StatusText(http.StatusNotFound),
			Status: http.StatusNotFound,
			Code:   "not_found",
			Detail: "there is no endpoint with the key " + name,
		}
	}
	return found.Items[0].ID, nil
}

// printEndpoint prints the most important fields of an endpoint; with JSON output, it prints all.
func (s *session) printEndpoint(raw json.RawMessage) error {
	return show(s, raw, func(e client.Endpoint) error {
		facts := [][2]string{
			{"id", e.ID},
			{"name", e.Name},
			{"key", text(e.Key)},
			{"labels", labelWords(e.Labels)},
			{"target", string(e.Method) + " " + e.URL},
			{"schedule", schedule(e)},
			{"state", string(e.State)},
			{"paused until", instant(e.PausedUntil)},
			{"paused because", text(e.PauseReason)},
			{"unroutable since", instant(e.UnroutableSince)},
			{"next run", instant(e.NextRunAt)},
			{"because", sourcetext.Next(e)},
			{"planner", string(e.Planner)},
		}
		others, err := otherFacts(raw)
		if err != nil {
			return err
		}
		facts = append(append(facts, others...), hintFacts(e.Hints)...)
		if e.FailureCount > 0 {
			facts = append(facts, [2]string{"failures in a row", strconv.Itoa(int(e.FailureCount))})
		}
		if e.LastRun != nil {
			facts = append(facts, [2]string{"last run", instant(&e.LastRun.ScheduledFor) + " " + lastStatus(e)})
		}
		if e.Warnings != nil {
			for _, w := range *e.Warnings {
				facts = append(facts, warningFact(w))
			}
		}
		return s.facts(facts)
	})
}

// otherFacts returns the fields with values other than their defaults, named like their flags. It
// leaves out the fields that printEndpoint always shows.
func otherFacts(raw json.RawMessage) (facts [][2]string, err error) {
	var endpoint map[string]any
	if err := decode(raw, &endpoint); err != nil {
		return nil, err
	}
	shown := []string{"name", "key", "labels", "method", "url", "baselineIntervalMs", "baselineCron", "timezone", "planner"}
	for _, f := range flagged() {
		value := f.Value(endpoint)
		if slices.Contains(shown, f.Path) || value == nil || f.Kind != contract.Pairs && f.Kind != contract.List && value == f.Default {
			continue
		}
		facts = append(facts, fieldFact(f, value))
	}
	return facts, nil
}

// fieldFact returns a field as a row, named like its flag.
func fieldFact(f contract.Field, value any) [2]string {
	return [2]string{strings.ReplaceAll(f.Flag, "-", " "), shorten(fieldText(f, value))}
}

// shorten truncates a text to 500 characters, so that one field does not fill the screen.
func shorten(text string) string {
	const most = 500
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// warningFact returns a warning as a row. A warning about a removal by a clear or an undo is shown
// as done, because it is the requested result.
func warningFact(w client.FieldError) [2]string {
	if w.Removed() {
		return [2]string{"done", w.Message}
	}
	return [2]string{"warning", w.Field + ": " + w.Message}
}

// hintFacts returns a row per hint with its value, expiry, author and reason.
func hintFacts(h client.Hints) [][2]string {
	var facts [][2]string
	tell := func(kind, what, author, reason string, until time.Time) {
		line := what + " until " + instant(&until) + ", by " + author
		if reason != "" {
			line += ": " + reason
		}
		facts = append(facts, [2]string{kind, line})
	}
	if i := h.Interval; i != nil {
		tell("interval hint", "every "+milliseconds(i.IntervalMs), i.Author, i.Reason, i.ExpiresAt)
	}
	if o := h.OneShot; o != nil {
		tell("one-shot hint", "at "+instant(&o.At), o.Author, o.Reason, o.ExpiresAt)
	}
	return facts
}

// schedule formats the baseline.
func schedule(e client.Endpoint) string {
	if e.BaselineIntervalMs != nil {
		return "every " + milliseconds(*e.BaselineIntervalMs)
	}
	return text(e.BaselineCron) + " (" + e.Timezone + ")"
}

func lastStatus(e client.Endpoint) string {
	if e.LastRun == nil {
		return "-"
	}
	return string(e.LastRun.Status)
}
