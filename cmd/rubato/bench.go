package main

import (
	"context"
	"fmt"
	"os"

	"github.com/mattn/go-isatty"

	"rubato/internal/bench"
)

// benchCmd is `rubato bench`.
type benchCmd struct {
	Burst benchBurstCmd `cmd:"" help:"Many endpoints come due at one instant: runs per second."`
}

// benchHost holds the flags of every bench.
type benchHost struct {
	Rounds  int      `default:"1" help:"How often everything is measured. The medians are reported."`
	Alone   bool     `help:"Leave out the ceilings and the peers."`
	Callers int      `default:"64" help:"Connections that the ceilings call over."`
	Set     []string `placeholder:"NAME=VALUE" sep:"none" help:"A setting of API server and workers, such as RUBATO_SLOTS=512. May be repeated."`
	Dir     string   `placeholder:"DIR" help:"Where the private Postgres keeps its data. Default: among temporary files."`
	Profile string   `placeholder:"DIR" help:"Keep CPU profiles of the workers there. Taking them costs a little speed."`
}

// contest returns what the flags ask for.
func (h benchHost) contest(s *session) (bench.Contest, error) {
	program, err := os.Executable()
	if err != nil {
		return bench.Contest{}, fmt.Errorf("finding this program, to start it again: %w", err)
	}
	return bench.Contest{
		Host: bench.Host{
			Program: program, Dir: h.Dir, Settings: h.Set, Profiles: h.Profile, Progress: s.progress(),
		},
		Rounds: max(1, h.Rounds), Callers: max(1, h.Callers), Alone: h.Alone,
	}, nil
}

// progress returns where a long command tells how far it is.
func (s *session) progress() *bench.Progress {
	file, is := s.stderr.(*os.File)
	return &bench.Progress{Out: s.stderr, Terminal: is && isatty.IsTerminal(file.Fd())}
}

// benchBurstCmd is `rubato bench burst`.
type benchBurstCmd struct {
	benchHost

	Endpoints int `default:"20000" help:"How many come due."`
	Workers   int `default:"1" help:"How many workers run them."`
}

// Run measures and prints.
func (cmd *benchBurstCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Burst{Contest: c, Endpoints: cmd.Endpoints, Workers: cmd.Workers}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// report prints what a bench found out.
func (s *session) report(r bench.Report) error {
	if s.json {
		return s.print(r)
	}
	for _, t := range r.Tables() {
		if err := s.say("%s", t.Title); err != nil {
			return err
		}
		if err := s.table(t.Header, t.Rows); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		if err := s.say("%s", note); err != nil {
			return err
		}
	}
	return nil
}

// benchProcessCmd is a part of a bench, which starts it. It is not for people.
type benchProcessCmd struct {
	Role string `arg:"" help:"Which part."`
}

// Run plays the part until the bench ends it.
func (cmd *benchProcessCmd) Run(ctx context.Context, s *session) error {
	return bench.Role{Name: cmd.Role, Environ: s.environ, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr}.Run(ctx)
}
