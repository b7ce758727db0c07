package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"rubato/client"
)

// endpointsApplyCmd is `rubato endpoints apply`.
type endpointsApplyCmd struct {
	serverFlag

	File     string   `short:"f" required:"" placeholder:"FILE" help:"YAML or JSON file with any number of endpoints, a directory of such files, or - for standard input."`
	Prune    bool     `help:"Also delete endpoints that match --selector and are not in the files."`
	Selector []string `placeholder:"NAME=VALUE" sep:"none" help:"Restrict --prune to endpoints with this label; may be repeated."`
	Yes      bool     `short:"y" help:"Do not ask for confirmation."`
	DryRun   bool     `help:"Print the plan without applying it."`
}

// step is one action of the plan of apply.
type step struct {
	// Action is create, update, unchanged or delete.
	Action  string   `json:"action"`
	Key     string   `json:"key,omitempty"`
	ID      string   `json:"id,omitempty"`
	Changes []string `json:"changes,omitempty"`
}

// Run prints the differences between the files and the server, and applies them after a
// confirmation.
func (cmd *endpointsApplyCmd) Run(ctx context.Context, s *session) error {
	switch {
	case cmd.Prune && len(cmd.Selector) == 0:
		return usageError{"--prune needs --selector, otherwise it would delete every endpoint that is not in the files"}
	case cmd.File == "-" && !cmd.Yes && !cmd.DryRun:
		return usageError{"-f - leaves no input for a confirmation: add --yes or --dry-run"}
	}
	wanted, faults, err := s.readEndpoints(cmd.File)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return s.allFaults(ctx, wanted, faults)
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	steps, err := cmd.plan(ctx, r, wanted)
	if err != nil {
		return err
	}
	if err := s.printPlan(steps, cmd.DryRun); err != nil || cmd.DryRun || !changing(steps) {
		return err
	}
	if !cmd.Yes {
		if err := s.confirm(ctx, "Apply this plan?"); err != nil {
			return err
		}
	}
	return s.applySteps(ctx, r, wanted, steps)
}

// allFaults adds the server's validation errors for the sound endpoints to the faults of the files.
// It always returns an error and changes nothing, because the server only plans (dryRun).
func (s *session) allFaults(ctx context.Context, sound []endpointFile, faults []fileFault) error {
	if len(sound) == 0 {
		return faultError(faults)
	}
	r, err := s.connect()
	if err == nil {
		var more []fileFault
		_, more, err = r.previewImport(ctx, sound)
		faults = append(faults, more...)
	}
	if err != nil { // The faults of the files are useful without the server's.
		return usageError{fmt.Sprintf("%s\nchecking the other endpoints on the server failed: %s", faultError(faults), err)}
	}
	return faultError(faults)
}

// plan asks the server for the steps that apply would take, including deletions by --prune.
func (cmd *endpointsApplyCmd) plan(ctx context.Context, r *remote, wanted []endpointFile) ([]step, error) {
	steps, faults, err := r.previewImport(ctx, wanted)
	switch {
	case err != nil && len(faults) > 0:
		return nil, fmt.Errorf("%w\n%s", err, faultError(faults).Error())
	case err != nil:
		return nil, err
	case len(faults) > 0:
		return nil, faultError(faults)
	}
	pruned, err := cmd.prune(ctx, r, steps)
	return append(steps, pruned...), err
}

// previewImport returns the planned step of each endpoint and the endpoints that the server
// refuses. The faults are valid even beside an error.
func (r *remote) previewImport(ctx context.Context, wanted []endpointFile) (steps []step, faults []fileFault, err error) {
	answer, err := r.importLines(ctx, linesOf(wanted), 1, true)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = answer.Close() }()
	steps = make([]step, 0, len(wanted))
	summary, err := readResults(answer, 1, func(result client.ImportResult, _ json.RawMessage) error {
		file := wanted[result.Line-1]
		st := step{Key: file.key, ID: text(result.ID)}
		switch {
		case result.Error != nil:
			faults = append(faults, file.fault(result.Error))
			return nil
		case result.Status == client.ImportStatusUnchanged:
			st.Action = "unchanged"
		case result.ID == nil:
			st.Action = "create"
		default:
			st.Action = "update"
			st.Changes = *result.Changes
		}
		steps = append(steps, st)
		return nil
	})
	switch {
	case err != nil:
		return nil, faults, fmt.Errorf("planning: %w", err)
	case summary.Error != nil:
		return nil, faults, fmt.Errorf("planning: %s", summary.Error.Detail)
	}
	return steps, faults, nil
}

// prune returns the deletions of --prune: endpoints that match the selector and that no step names.
// Steps compare by id, because an endpoint of the server may have no key.
func (cmd *endpointsApplyCmd) prune(ctx context.Context, r *remote, steps []step) ([]step, error) {
	if !cmd.Prune {
		return nil, nil
	}
	labels, err := labelFilters(cmd.Selector)
	if err != nil {
		return nil, err
	}
	api, err := r.streams()
	if err != nil {
		return nil, err
	}
	body, err := r.stream(api.ExportEndpoints(ctx, &client.ExportEndpointsParams{Label: labels}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	named := map[string]bool{}
	for _, st := range steps {
		named[st.ID] = true
	}
	var deletions []step
	lines := json.NewDecoder(body)
	for {
		var line client.ImportLine
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return deletions, nil
		case err != nil: // Without its last line, a truncated export would look complete.
			return nil, fmt.Errorf("reading the endpoints of the server: %w", err)
		}
		if id := text(line.ID); !named[id] {
			deletions = append(deletions, step{
				Action: "delete",
				Key:    text(line.Key),
				ID:     id,
			})
		}
	}
}

func linesOf(wanted []endpointFile) io.Reader {
	var text bytes.Buffer
	for _, w := range wanted {
		text.Write(w.spec)
		text.WriteByte('\n')
	}
	return &text
}

func changing(steps []step) bool {
	for _, st := range steps {
		if st.Action != "unchanged" {
			return true
		}
	}
	return false
}

func (s *session) printPlan(steps []step, dryRun bool) error {
	if s.json {
		return s.print(map[string]any{"items": steps, "dryRun": dryRun})
	}
	counts := map[string]int{}
	for _, st := range steps {
		counts[st.Action]++
		if st.Action == "unchanged" {
			continue
		}
		name := st.Key
		if name == "" {
			name = st.ID
		}
		if err := s.say("%-7s %s  %s", st.Action, name, strings.Join(st.Changes, ", ")); err != nil {
			return err
		}
	}
	return s.say("%d to create, %d to update, %d to delete, %d unchanged", counts["create"], counts["update"], counts["delete"], counts["unchanged"])
}

// applySteps applies the plan. Deletions come last, so that nothing is deleted if an import failed.
func (s *session) applySteps(ctx context.Context, r *remote, wanted []endpointFile, steps []step) error {
	answer, err := r.importLines(ctx, linesOf(wanted), 1, false)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	var faults []string
	summary, err := readResults(answer, 1, func(result client.ImportResult, _ json.RawMessage) error {
		if result.Error != nil {
			faults = append(faults, wanted[result.Line-1].fault(result.Error).text)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("some endpoints may not be applied, and nothing was deleted; apply again: %w", err)
	}
	if summary.Error != nil {
		faults = append(faults, summary.Error.Detail)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%d endpoints could not be applied, and nothing was deleted; apply again:\n%s",
			len(wanted)-int(summary.Summary.Lines-summary.Summary.Failed), strings.Join(faults, "\n"))
	}
	for _, st := range steps {
		if st.Action != "delete" {
			continue
		}
		if _, err := r.read(r.api.ArchiveEndpointWithResponse(ctx, st.ID, nil)); err != nil {
			return fmt.Errorf("deleting %s: %w", st.ID, err)
		}
	}
	return nil
}
