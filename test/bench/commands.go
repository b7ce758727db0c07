package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"rubato/test/bench/internal/bench"
)

// hostFlags are the flags of every command.
type hostFlags struct {
	Rounds  int      `default:"1" help:"How often everything is measured. The medians are reported."`
	Alone   bool     `help:"Leave out the ceilings and the peers."`
	Callers int      `default:"64" help:"Connections that the ceilings call over."`
	Set     []string `placeholder:"NAME=VALUE" sep:"none" help:"A setting of API server and workers, such as RUBATO_SLOTS=512. May be repeated."`
	Dir     string   `placeholder:"DIR" help:"Where the private Postgres keeps its data. Default: among temporary files."`
	Profile string   `placeholder:"DIR" help:"Keep CPU profiles of the workers there. Taking them costs a little speed."`
}

// contest returns the contest that the flags describe.
func (h hostFlags) contest(s *session) (bench.Contest, error) {
	program, err := os.Executable()
	if err != nil {
		return bench.Contest{}, fmt.Errorf("finding this program, to start it again: %w", err)
	}
	return bench.Contest{
		Host: bench.Host{
			Program:  program,
			Dir:      h.Dir,
			Settings: h.Set,
			Profiles: h.Profile,
			Progress: s.progress(),
		},
		Rounds:  max(1, h.Rounds),
		Callers: max(1, h.Callers),
		Alone:   h.Alone,
	}, nil
}

// progress returns the progress display on standard error.
func (s *session) progress() *bench.Progress {
	file, is := s.stderr.(*os.File)
	return &bench.Progress{Out: s.stderr, Terminal: is && isatty.IsTerminal(file.Fd())}
}

// burstCmd implements `bench burst`.
type burstCmd struct {
	hostFlags

	Endpoints int `default:"20000" help:"How many come due."`
	Workers   int `default:"1" help:"How many workers run them."`
}

// Run measures and prints.
func (cmd *burstCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Burst{
		Contest:   c,
		Endpoints: cmd.Endpoints,
		Workers:   cmd.Workers,
	}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// steadyCmd implements `bench steady`.
type steadyCmd struct {
	hostFlags

	Rate    int           `default:"200" help:"Calls a second."`
	For     time.Duration `default:"20s" help:"How long it is watched."`
	Every   time.Duration `default:"12s" help:"Interval of the endpoints; beyond the horizon of 10 s every run is claimed anew."`
	Workers int           `default:"1" help:"How many workers."`
	Find    bool          `help:"First look for the highest rate with a lag p99 of at most 50 ms, from --rate upwards, and measure there."`
	// Snapshot is the age of the snapshot; 0: none is held.
	Snapshot time.Duration `placeholder:"AGE" help:"Measure twice: before a transaction with a snapshot is opened, and when it has been open for AGE, such as 30m."`
	Dead     int           `placeholder:"N" help:"Measure twice: alone, and beside N endpoints on hosts that refuse connections, ten on each."`
	Hosts    int           `placeholder:"N" help:"Spread the endpoints over N hosts, which are loopback addresses (Linux). Default: all have one host."`
	Settle   time.Duration `placeholder:"TIME" help:"Time from the start of the workers, and from the first runs on dead hosts, to the measurement, such as 16m."`
	Gap      int           `placeholder:"N" help:"Instead, watch N endpoints with an interval of 1 s: how even the gaps between their calls are."`
}

// maxDead bounds the endpoints on dead hosts by the addresses of the hosts.
const maxDead = 500_000

// maxHosts bounds the hosts of the endpoints by the addresses of the hosts.
const maxHosts = 65_536

// Validate refuses flags that are out of range or exclude each other.
func (cmd *steadyCmd) Validate() error {
	switch {
	case cmd.Snapshot < 0:
		return errors.New("--snapshot: must be positive, such as 30m")
	case cmd.Settle < 0:
		return errors.New("--settle: must be positive, such as 16m")
	case cmd.Hosts < 0 || cmd.Hosts > maxHosts:
		return fmt.Errorf("--hosts: must be from 1 to %d", maxHosts)
	case cmd.Dead < 0 || cmd.Dead > maxDead:
		return fmt.Errorf("--dead: must be from 1 to %d", maxDead)
	}
	return cmd.checkCombination()
}

// checkCombination refuses flags that exclude each other. A search and a count of gaps measure in
// their own way, and so does a snapshot.
func (cmd *steadyCmd) checkCombination() error {
	special := cmd.Gap > 0 || cmd.Find
	switch {
	case cmd.Snapshot > 0 && special:
		return errors.New("--snapshot: cannot be combined with --gap or --find")
	case cmd.Hosts > 0 && cmd.Gap > 0:
		return errors.New("--hosts: cannot be combined with --gap")
	case (cmd.Dead > 0 || cmd.Settle > 0) && (special || cmd.Snapshot > 0):
		return errors.New("--dead and --settle: cannot be combined with --snapshot, --gap or --find")
	}
	return nil
}

// Run measures and prints.
func (cmd *steadyCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	steady := bench.Steady{
		Contest: c,
		Rate:    max(1, cmd.Rate),
		For:     cmd.For,
		Every:   cmd.Every,
		Workers: cmd.Workers,
		Settle:  cmd.Settle,
		Hosts:   cmd.Hosts,
		Find:    cmd.Find,
	}
	run := steady.Run
	switch {
	case cmd.Snapshot > 0:
		run = bench.Snapshot{Steady: steady, Age: cmd.Snapshot}.Run
	case cmd.Dead > 0:
		run = bench.DeadHosts{Steady: steady, Endpoints: cmd.Dead}.Run
	case cmd.Gap > 0:
		run = bench.Gap{
			Contest:   c,
			Endpoints: cmd.Gap,
			Every:     time.Second,
			For:       cmd.For,
		}.Run
	}
	report, err := run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// scaleCmd implements `bench scale`.
type scaleCmd struct {
	hostFlags

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
func (cmd *scaleCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	scale := bench.Scale{Contest: c, Endpoints: cmd.Endpoints}
	if cmd.Bursts {
		scale.Workers = cmd.Workers
	}
	if cmd.Claims {
		scale.Claims = bench.Claims{
			Registered: cmd.Registered,
			Claimed:    cmd.Claimed,
			Claimers:   cmd.Claimers,
			Rounds:     cmd.Rounds,
			For:        cmd.For,
		}
	}
	report, err := scale.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// loadFlags are the flags of the load on the API.
type loadFlags struct {
	Rate     int           `default:"200" help:"Calls a second that must not be disturbed."`
	For      time.Duration `default:"20s" help:"How long they are watched."`
	RunNow   int           `default:"200" help:"Runs that are asked for at once, one after the other."`
	Operate  int           `default:"200" help:"Runs, pauses and hints a second that are asked for over the API beside the calls; 0: none."`
	Register int           `default:"4000" help:"Endpoints that are registered one by one."`
	Conns    int           `default:"16" help:"Connections that register."`
}

func (f loadFlags) load() bench.Load {
	return bench.Load{
		Rate:     max(1, f.Rate),
		For:      f.For,
		RunNow:   f.RunNow,
		Operate:  f.Operate,
		Register: max(1, f.Register),
		Conns:    max(1, f.Conns),
	}
}

// apiCmd implements `bench api`.
type apiCmd struct {
	hostFlags
	loadFlags
}

// Run measures and prints.
func (cmd *apiCmd) Run(ctx context.Context, s *session) error {
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

// callsCmd implements `bench calls`.
type callsCmd struct {
	hostFlags

	Number int           `default:"20000" help:"Calls that are sent as fast as the API takes them."`
	Conns  int           `default:"32" help:"Connections that send calls."`
	Rate   int           `default:"200" help:"Calls a second of the second part, for the time from a call to its request."`
	For    time.Duration `default:"20s" help:"How long the second part takes."`
}

// Run measures and prints.
func (cmd *callsCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Calls{
		Contest: c,
		Number:  max(1, cmd.Number),
		Conns:   max(1, cmd.Conns),
		Rate:    max(1, cmd.Rate),
		For:     cmd.For,
	}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// mixedCmd implements `bench mixed`.
type mixedCmd struct {
	hostFlags
	loadFlags

	Hanging    int           `default:"200" help:"Endpoints that hang until their timeout."`
	Backlog    int           `default:"10000" help:"Due endpoints of one tenant while another has one."`
	Registered int           `default:"100000" help:"Endpoints of an installation that has nothing to do. A million takes minutes to fill in."`
	InFlight   int           `default:"1000" help:"Requests under way in its worker when memory is read."`
	IdleFor    time.Duration `default:"30s" help:"How long it is watched doing nothing."`
}

// Run measures and prints.
func (cmd *mixedCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Mixed{
		Contest:    c,
		Load:       cmd.load(),
		Hanging:    cmd.Hanging,
		Backlog:    cmd.Backlog,
		Registered: max(1, cmd.Registered),
		InFlight:   cmd.InFlight,
		IdleFor:    cmd.IdleFor,
	}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}

// soakCmd implements `bench soak`.
type soakCmd struct {
	hostFlags

	Rate    int           `default:"500" help:"Calls a second."`
	Operate int           `default:"20" help:"Runs, pauses and hints a second that are asked for over the API meanwhile; 0: none."`
	Hanging int           `default:"20" help:"Endpoints that hang until their timeout meanwhile."`
	For     time.Duration `default:"1h" help:"How long."`
	Sample  time.Duration `default:"10s" help:"From one look at what may grow to the next."`
	Workers int           `default:"1" help:"How many workers."`
}

// Run measures and prints.
func (cmd *soakCmd) Run(ctx context.Context, s *session) error {
	c, err := cmd.contest(s)
	if err != nil {
		return err
	}
	report, err := bench.Soak{
		Contest: c,
		Rate:    max(1, cmd.Rate),
		Operate: cmd.Operate,
		Hanging: cmd.Hanging,
		For:     cmd.For,
		Sample:  max(time.Second, cmd.Sample),
		Workers: max(1, cmd.Workers),
	}.Run(ctx)
	if err != nil {
		return err
	}
	return s.report(report)
}
