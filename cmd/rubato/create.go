package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"rubato/internal/notation"
)

// endpointsCreateCmd is `rubato endpoints create`.
type endpointsCreateCmd struct {
	File string `short:"f" placeholder:"FILE" help:"Read the endpoint from a JSON file, or from the input with -. Excludes every other flag."`

	Name        *string  `placeholder:"NAME" help:"What people call it."`
	Key         *string  `placeholder:"KEY" help:"Your own name for it, unique: a-z, 0-9, dot, dash and underscore."`
	Description *string  `placeholder:"TEXT" help:"What it is for."`
	Label       []string `placeholder:"NAME=VALUE" sep:"none" help:"A label; may be repeated."`

	URL    *string  `name:"url" placeholder:"URL" help:"What to call."`
	Method *string  `placeholder:"METHOD" help:"GET unless given."`
	Header []string `placeholder:"'NAME: VALUE'" sep:"none" help:"A header to send; may be repeated."`
	Body   *string  `placeholder:"TEXT" help:"What to send."`

	Interval *time.Duration `placeholder:"DURATION" help:"Run this often, such as 30s."`
	Cron     *string        `placeholder:"CRON" help:"Run by a cron expression, such as '*/5 * * * *'."`
	Timezone *string        `placeholder:"ZONE" help:"The zone of the cron, such as Europe/Berlin. UTC unless given."`
	Min      *time.Duration `placeholder:"DURATION" help:"Never run more often than this."`
	Max      *time.Duration `placeholder:"DURATION" help:"Never run less often than this."`
	Jitter   *time.Duration `placeholder:"DURATION" help:"Spread due times by up to this."`
	Planner  *string        `placeholder:"AUTHORITY" help:"What the planner may do: off, observe, suggest, or act, which it may unless given."`

	Timeout          *time.Duration `placeholder:"DURATION" help:"How long an answer may take."`
	MaxExecutionTime *time.Duration `placeholder:"DURATION" help:"How long a run may take in all."`
	Success          *string        `placeholder:"STATUSES" help:"Which statuses are a success, such as 2xx,304."`
	Attempts         *int           `placeholder:"N" help:"How often to try one due time."`
}

// Run registers the endpoint and prints it.
func (cmd *endpointsCreateCmd) Run(ctx context.Context, s *session) error {
	fields, err := cmd.fields()
	if err != nil {
		return err
	}
	body, err := s.objectFrom("endpoint", cmd.File, fields)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CreateEndpointWithBodyWithResponse(ctx, "application/json", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	return s.printEndpoint(raw)
}

// fields returns the fields that the flags set, by their names in the API. Whether an empty value or a zero makes sense is for the server to judge.
func (cmd *endpointsCreateCmd) fields() (map[string]any, error) {
	fields := map[string]any{}
	if cmd.Method != nil {
		fields["method"] = strings.ToUpper(*cmd.Method)
	}
	for name, value := range map[string]*string{
		"name": cmd.Name, "key": cmd.Key, "description": cmd.Description, "url": cmd.URL,
		"body": cmd.Body, "baselineCron": cmd.Cron, "timezone": cmd.Timezone, "success": cmd.Success, "planner": cmd.Planner,
	} {
		if value != nil {
			fields[name] = *value
		}
	}
	for name, d := range map[string]*time.Duration{
		"baselineIntervalMs": cmd.Interval, "minIntervalMs": cmd.Min, "maxIntervalMs": cmd.Max, "jitterMs": cmd.Jitter,
		"timeoutMs": cmd.Timeout, "maxExecutionTimeMs": cmd.MaxExecutionTime,
	} {
		if d != nil {
			fields[name] = d.Milliseconds()
		}
	}
	if cmd.Attempts != nil {
		fields["retry"] = map[string]any{"maxAttempts": *cmd.Attempts}
	}
	if err := pairs(fields, "labels", cmd.Label, '='); err != nil {
		return nil, err
	}
	return fields, pairs(fields, "headers", cmd.Header, ':')
}

// pairs sets a field to an object made of texts such as NAME=VALUE.
func pairs(fields map[string]any, field string, texts []string, separator byte) error {
	if len(texts) == 0 {
		return nil
	}
	object := map[string]string{}
	for _, text := range texts {
		name, value, found := notation.CutPair(text, separator)
		if !found {
			return usageError{fmt.Sprintf("%q has no %q between its name and its value", text, string(separator))}
		}
		name = strings.TrimSpace(name)
		if _, twice := object[name]; twice {
			return usageError{fmt.Sprintf("%q is given twice; keep one", name)}
		}
		object[name] = strings.TrimSpace(value)
	}
	fields[field] = object
	return nil
}
