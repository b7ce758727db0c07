package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"rubato/client"
)

// Run lists windows.
func (cmd *noticesWindowsCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	params := &client.ListMaintenanceWindowsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}
	raw, err := r.read(r.api.ListMaintenanceWindowsWithResponse(ctx, params))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"NAME", "FROM", "UNTIL", "ENDPOINTS", "REASON"}, func(x client.MaintenanceWindow) []string {
		return []string{x.Name, instant(&x.StartsAt), instant(&x.EndsAt), scopeWords(x.EndpointID, x.Labels), dash(x.Reason)}
	})
}

// Run creates or replaces a window.
func (cmd *noticesWindowCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	endpoint, err := r.endpointNamed(ctx, cmd.Endpoint)
	if err != nil {
		return err
	}
	body, err := cmd.body(time.Now(), endpoint)
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.PutMaintenanceWindowWithBodyWithResponse(ctx, cmd.Name, nil, "application/json", bytes.NewReader(body)))
	if err != nil {
		return err
	}
	return show(s, raw, func(x client.MaintenanceWindow) error {
		return s.say("notices of %s are muted from %s to %s", scopeWords(x.EndpointID, x.Labels), instant(&x.StartsAt), instant(&x.EndsAt))
	})
}

// body returns the request body. The endpoint is the id for --endpoint, or nil.
func (cmd *noticesWindowCmd) body(now time.Time, endpoint *string) (json.RawMessage, error) {
	fields, err := scopeFields(endpoint, cmd.Label)
	if err != nil {
		return nil, err
	}
	from, until := cmd.From, cmd.Until
	if from.IsZero() {
		from = now
	}
	switch {
	case until.IsZero() == (cmd.For == 0):
		return nil, usageError{"set the end of the window with --until or --for"}
	case until.IsZero():
		until = from.Add(cmd.For)
	}
	fields["startsAt"], fields["endsAt"] = from.UTC(), until.UTC()
	if cmd.Reason != "" {
		fields["reason"] = cmd.Reason
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("writing the window: %w", err)
	}
	return body, nil
}

// Run deletes a window.
func (cmd *noticesCloseCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.DeleteMaintenanceWindowWithResponse(ctx, cmd.Name)); err != nil {
		return err
	}
	return s.deleted(cmd.Name)
}
