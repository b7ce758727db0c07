package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"rubato/internal/app"
	"rubato/internal/bench"
)

// benchCmd is `rubato bench`.
type benchCmd struct {
	Burst  benchBurstCmd  `cmd:"" help:"Many endpoints come due at one instant: runs per second."`
	Steady benchSteadyCmd `cmd:"" help:"Calls at a steady rate: how late they start."`
	Scale  benchScaleCmd  `cmd:"" help:"More workers, more endpoints: throughput, and what a claim takes."`
	API    benchAPICmd    `cmd:"" name:"api" help:"What waits for the API: registrations, runs at once, pauses and hints beside a loaded worker."`
	Mixed  benchMixedCmd  `cmd:"" help:"What shares a worker: hanging targets, tenants, runs at once, registrations, idle cost, memory."`
	Soak   benchSoakCmd   `cmd:"" help:"Work for a long time: whether memory, connections or tables grow."`
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

// benchSteadyCmd is `rubato bench steady`.
type benchSteadyCmd struct {
	benchHost

	Rate    int           `default:"200" help:"Calls a second."`
	For     time.Duration `default:"20s" help:"How long it is watched."`
	Every   time.Duration `default:"12s" help:"Interval of the endpoints; beyond the horizon of 10 s every run is claimed anew."`
	Workers int           `default:"1" help:"How many workers."`
	Find    bool          `help:"First look for the highest rate with a lag p99 of at most 50 ms, from --rate upwards, and measure there."`
	Gap     int           `placeholder:"N" help:"Instead, watch N endpoints with an interval of 1 s: how even the gaps between their calls are."`
}

// Run measures and prints.
func (cmd *benchSteadyCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	run := bench.Steady{Contest: c, Rate: max(1, cmd.Rate), For: cmd.For, Every: cmd.Every, Workers: cmd.Workers, Find: cmd.Find}.Run
	if cmd.Gap > 0 {
		run = bench.Gap{Contest: c, Endpoints: cmd.Gap, Every: time.Second, For: cmd.For}.Run
	}
	report, err := run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// benchScaleCmd is `rubato bench scale`.
type benchScaleCmd struct {
	benchHost

	Endpoints  int           `default:"20000" help:"How many come due in each burst."`
	Workers    []int         `default:"1,2,4,8" help:"Numbers of workers to run a burst with."`
	Bursts     bool          `default:"true" negatable:"" help:"Run the bursts."`
	Claims     bool          `default:"true" negatable:"" help:"Measure the claim statement."`
	Registered []int         `default:"10000,100000,1000000" help:"Claims: how many endpoints there are."`
	Claimed    []int         `default:"800,10000" help:"Claims: how many of them are claimed and not finished."`
	Claimers   []int         `default:"1,2,4,8" help:"Claims: how many claim at once."`
	For        time.Duration `default:"3s" help:"Claims: how long each is measured."`
}

// Run measures and prints.
func (cmd *benchScaleCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	scale := bench.Scale{Contest: c, Endpoints: cmd.Endpoints}
	if cmd.Bursts {
		scale.Workers = cmd.Workers
	}
	if cmd.Claims {
		scale.Claims = bench.Claims{Registered: cmd.Registered, Claimed: cmd.Claimed, Claimers: cmd.Claimers, Rounds: cmd.Rounds, For: cmd.For}
	}
	report, err := scale.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// benchLoad holds the flags of what the API is asked to do.
type benchLoad struct {
	Rate     int           `default:"200" help:"Calls a second that must not be disturbed."`
	For      time.Duration `default:"20s" help:"How long they are watched."`
	RunNow   int           `default:"200" help:"Runs that are asked for at once, one after the other."`
	Operate  int           `default:"200" help:"Runs, pauses and hints a second that are asked for over the API beside the calls; 0: none."`
	Register int           `default:"4000" help:"Endpoints that are registered one by one."`
	Conns    int           `default:"16" help:"Connections that register."`
}

func (f benchLoad) load() bench.Load {
	return bench.Load{
		Rate: max(1, f.Rate), For: f.For, RunNow: f.RunNow, Operate: f.Operate, Register: max(1, f.Register), Conns: max(1, f.Conns),
	}
}

// benchAPICmd is `rubato bench api`.
type benchAPICmd struct {
	benchHost
	benchLoad
}

// Run measures and prints.
func (cmd *benchAPICmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.API{Contest: c, Load: cmd.load()}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// benchMixedCmd is `rubato bench mixed`.
type benchMixedCmd struct {
	benchHost
	benchLoad

	Hanging    int           `default:"200" help:"Endpoints that hang until their timeout."`
	Backlog    int           `default:"10000" help:"Due endpoints of one tenant while another has one."`
	Registered int           `default:"100000" help:"Endpoints of an installation that has nothing to do. A million takes minutes to fill in."`
	InFlight   int           `default:"1000" help:"Requests under way in its worker when memory is read."`
	IdleFor    time.Duration `default:"30s" help:"How long it is watched doing nothing."`
}

// Run measures and prints.
func (cmd *benchMixedCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Mixed{
		Contest: c, Load: cmd.load(), Hanging: cmd.Hanging, Backlog: cmd.Backlog, Registered: max(1, cmd.Registered),
		InFlight: cmd.InFlight, IdleFor: cmd.IdleFor,
	}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// benchSoakCmd is `rubato bench soak`.
type benchSoakCmd struct {
	benchHost

	Rate    int           `default:"500" help:"Calls a second."`
	Operate int           `default:"20" help:"Runs, pauses and hints a second that are asked for over the API meanwhile; 0: none."`
	Hanging int           `default:"20" help:"Endpoints that hang until their timeout meanwhile."`
	For     time.Duration `default:"1h" help:"How long."`
	Sample  time.Duration `default:"10s" help:"From one look at what may grow to the next."`
	Workers int           `default:"1" help:"How many workers."`
}

// Run measures and prints.
func (cmd *benchSoakCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Soak{
		Contest: c, Rate: max(1, cmd.Rate), Operate: cmd.Operate, Hanging: cmd.Hanging, For: cmd.For, Sample: max(time.Second, cmd.Sample),
		Workers: max(1, cmd.Workers),
	}.Run(ctx)
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

// play is a part of a bench until the bench ends it, and returns the exit code. What is measured must be what the daemons are, so this comes
// before anything of the command line is in memory.
func (s *session) play(ctx context.Context, role string) int {
	if err := (bench.Role{Name: role, Environ: s.environ, Stdin: s.stdin, Stdout: s.stdout, Stderr: s.stderr}).Run(ctx); err != nil {
		s.complain(err)
		return exitCode(err)
	}
	return app.ExitOK
}
