package main

import (
	"context"
	"errors"
	"time"

	"rubato/internal/app"
)

// replayCmd is `rubato replay`.
type replayCmd struct {
	period

	Endpoint string `help:"Endpoint ID; without it every endpoint."`
}

// Help describes the exit code and the begin of the span.
func (*replayCmd) Help() string {
	return `Example: rubato replay --since 1d
Each decision since the start of the time range is made again with the rules of this program, from the versions, hints, changes and runs on record. The exit code is 1 at the first difference. The replay of an endpoint begins at its last state on record before the start, at most a day of runs earlier. Without an end, the schedules in force are compared too.`
}

// Run replays the database in DATABASE_URL. It returns an error at a difference.
func (cmd *replayCmd) Run(ctx context.Context, s *session) error {
	from, to := cmd.bounds(time.Now())
	if from == nil {
		return usageError{"--from or --since: name the start of the time range, such as --since 1d"}
	}
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	r := app.Replay{
		Settings: settings,
		From:     *from,
		Endpoint: cmd.Endpoint,
		JSON:     s.json,
	}
	if to != nil {
		r.To = *to
	}
	same, err := r.Run(ctx, s.stdout)
	if err == nil && !same {
		return errors.New("a decision differs from its record")
	}
	return err
}
