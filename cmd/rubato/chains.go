package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"rubato/client"
)

// chainsCmd is `rubato chains`.
type chainsCmd struct {
	Apply  chainsApplyCmd  `cmd:"" help:"Store chains from YAML or JSON files, or replace their definitions."`
	Get    chainsGetCmd    `cmd:"" help:"Print the definition of a chain as YAML, in the form that apply reads."`
	Delete chainsDeleteCmd `cmd:"" help:"Delete a chain. Its runs in progress go on."`
	List   chainsListCmd   `cmd:"" help:"Print chains, sorted by name."`
	Run    chainsRunCmd    `cmd:"" help:"Start a run of a chain."`
	Runs   chainsRunsCmd   `cmd:"" help:"Print the runs of a chain, newest first."`
	Show   chainsShowCmd   `cmd:"" help:"Print a run of a chain with its steps."`
	Cancel chainsCancelCmd `cmd:"" help:"Cancel a run of a chain."`
}

type (
	chainsApplyCmd struct {
		serverFlag

		Name string `arg:"" optional:"" help:"Name of the chain. Default: the name in each definition."`
		File string `required:"" short:"f" placeholder:"FILE" help:"YAML or JSON file with any number of definitions, a directory of such files, or - for standard input."`
	}
	chainsGetCmd struct {
		serverFlag

		Name string `arg:"" help:"Name of the chain."`
	}
	chainsDeleteCmd struct {
		serverFlag

		Name string `arg:"" help:"Name of the chain."`
	}
	chainsListCmd struct {
		serverFlag

		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	chainsRunCmd struct {
		serverFlag

		Name  string `arg:"" help:"Name of the chain."`
		Input string `placeholder:"JSON" help:"Input as a JSON object."`
		Key   string `placeholder:"KEY" help:"Idempotency key: starts with the same key are one run."`
	}
	chainsRunsCmd struct {
		serverFlag

		Name   string `arg:"" help:"Name of the chain."`
		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	chainsShowCmd struct {
		serverFlag

		ID string `arg:"" help:"Chain run id (chr_...)."`
	}
	chainsCancelCmd struct {
		serverFlag

		ID string `arg:"" help:"Chain run id (chr_...)."`
	}
)

// Run stores chains.
func (cmd *chainsApplyCmd) Run(ctx context.Context, s *session) error {
	list, err := s.readChains(cmd.File, cmd.Name)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	for _, chain := range list {
		raw, err := r.read(r.api.PutChainWithBodyWithResponse(ctx, chain.name, "application/json", bytes.NewReader(chain.definition)))
		if err != nil {
			return fmt.Errorf("storing chain %s of %s; chains before it are stored: %w", chain.name, chain.file, err)
		}
		if err := show(s, raw, s.sayChain); err != nil {
			return err
		}
	}
	return nil
}

// sayChain prints the version of a stored chain and the warnings about it.
func (s *session) sayChain(c client.Chain) error {
	if err := s.say("chain %s has version %d", c.Name, c.Version); err != nil || c.Warnings == nil {
		return err
	}
	for _, w := range *c.Warnings {
		if err := s.say("warning: %s: %s", w.Field, w.Message); err != nil {
			return err
		}
	}
	return nil
}

// Run prints the definition of a chain.
func (cmd *chainsGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetChainWithResponse(ctx, cmd.Name))
	if err != nil {
		return err
	}
	return show(s, raw, func(c client.Chain) error {
		text, err := asYAML(c.Definition)
		if err != nil {
			return fmt.Errorf("encoding chain %s: %w", c.Name, err)
		}
		_, err = s.stdout.Write(text)
		return err
	})
}

// asYAML returns a value in the form of its JSON, as YAML in blocks.
func asYAML(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil { // JSON is YAML, and a node keeps its order.
		return nil, err
	}
	var inBlocks func(*yaml.Node)
	inBlocks = func(n *yaml.Node) {
		n.Style = 0
		for _, child := range n.Content {
			inBlocks(child)
		}
	}
	inBlocks(&document)
	return yaml.Marshal(&document)
}

// Run deletes a chain.
func (cmd *chainsDeleteCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.DeleteChainWithResponse(ctx, cmd.Name)); err != nil {
		return err
	}
	return s.deleted(cmd.Name)
}

// Run lists chains.
func (cmd *chainsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListChainsWithResponse(ctx, &client.ListChainsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	row := func(c client.Chain) []string {
		return []string{c.Name, strconv.FormatInt(c.Version, 10), strconv.Itoa(len(c.Definition.Steps)), instant(&c.UpdatedAt)}
	}
	return list(s, raw, []string{"NAME", "VERSION", "STEPS", "UPDATED"}, row)
}

// Run starts a run of a chain.
func (cmd *chainsRunCmd) Run(ctx context.Context, s *session) error {
	start := client.ChainStart{IdempotencyKey: given(cmd.Key)}
	if cmd.Input != "" {
		if err := json.Unmarshal([]byte(cmd.Input), &start.Input); err != nil {
			return usageError{"--input is no JSON object: " + err.Error()}
		}
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.RunChainWithResponse(ctx, cmd.Name, start))
	if err != nil {
		return err
	}
	return show(s, raw, func(c client.ChainRun) error { return s.say("%s is %s", c.ID, c.Status) })
}

// Run lists the runs of a chain.
func (cmd *chainsRunsCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListChainRunsWithResponse(ctx, cmd.Name, &client.ListChainRunsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	row := func(c client.ChainRun) []string {
		return []string{instant(&c.CreatedAt), c.Status, text(c.Reason), instant(c.EndedAt), c.ID}
	}
	return list(s, raw, []string{"STARTED", "STATUS", "REASON", "ENDED", "ID"}, row)
}

// Run prints a run of a chain.
func (cmd *chainsShowCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetChainRunWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return show(s, raw, func(c client.ChainRun) error {
		facts := [][2]string{
			{"id", c.ID},
			{"chain", c.Chain},
			{"status", c.Status},
			{"reason", text(c.Reason)},
			{"started", instant(&c.CreatedAt)},
			{"ended", instant(c.EndedAt)},
		}
		if c.AdvanceFailures != nil {
			facts = append(facts, [2]string{"advance failed", fmt.Sprintf("%d times, because of a fault of the server; retry at %s", *c.AdvanceFailures, instant(c.RetryAt))})
		}
		if c.Steps != nil {
			for _, step := range *c.Steps {
				facts = append(facts, stepFact(step))
			}
		}
		return s.facts(facts)
	})
}

// stepFact returns the line of a step.
func stepFact(step client.ChainRunStep) [2]string {
	name, facts := step.Name, []string{step.Status}
	if step.Elements != nil {
		facts = append(facts, "elements "+counts(*step.Elements))
	}
	if step.Element != nil {
		name += "." + strconv.Itoa(int(*step.Element))
	}
	for _, more := range []string{text(step.Reason), text(step.Error), text(step.RunID)} {
		if more != "" {
			facts = append(facts, more)
		}
	}
	if step.Compensation != nil {
		facts = append(facts, "compensation "+*step.Compensation)
	}
	return [2]string{"step " + name, strings.Join(facts, ", ")}
}

// counts returns numbers by status, such as 1 failed, 9 succeeded.
func counts(numbers map[string]int32) string {
	list := make([]string, 0, len(numbers))
	for _, status := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, fmt.Sprintf("%d %s", numbers[status], status))
	}
	return strings.Join(list, ", ")
}

// Run cancels a run of a chain.
func (cmd *chainsCancelCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CancelChainRunWithResponse(ctx, cmd.ID))
	if err != nil {
		return err
	}
	return show(s, raw, func(c client.ChainRun) error { return s.say("%s is to end; it is %s", c.ID, c.Status) })
}
