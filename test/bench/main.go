// Command bench measures Rubato on the local machine, next to a bare client, an ideal pipeline and
// a peer:
//
//	go run ./test/bench burst -o json
//
// The measurements are in internal/bench; the folder river holds the program of the peer. The tests
// run each command with a small load and check the report, never a speed. RUBATO_BENCH=long also
// runs the longest commands.
//
// Exit codes: 0 success; 1 failure; 2 wrong arguments or settings.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"rubato/internal/app"
	"rubato/internal/notation"
	"rubato/test/bench/internal/bench"
)

// cli is the command line.
type cli struct {
	Output string `enum:"table,json" default:"table" short:"o" placeholder:"FORMAT" help:"How to print: table or json."`

	Burst  burstCmd  `cmd:"" help:"Many endpoints come due at one instant: runs per second."`
	Steady steadyCmd `cmd:"" help:"Calls at a steady rate: how late they start."`
	Scale  scaleCmd  `cmd:"" help:"More workers, more endpoints: throughput, and what a claim takes."`
	API    apiCmd    `cmd:"" name:"api" help:"Latency of the API: registrations, runs at once, pauses and hints beside a loaded worker."`
	Calls  callsCmd  `cmd:"" help:"One-time calls: how many the API stores, and how soon their requests are sent."`
	Mixed  mixedCmd  `cmd:"" help:"Isolation on a shared worker: hanging targets, tenants, runs at once, registrations, idle cost, memory."`
	Soak   soakCmd   `cmd:"" help:"Work for a long time: whether memory, connections or tables grow."`
	Tempo  tempoCmd  `cmd:"" help:"A scenario of rubato simulate in real time, beside its simulation."`
}

// session holds the streams and the output format of a command.
type session struct {
	stdout io.Writer
	stderr io.Writer
	json   bool // print JSON instead of tables
}

func main() {
	ctx, stop := app.WithSignals(context.Background())
	code := execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// execute runs a command line, or a process of a bench, and returns the exit code. It checks for a
// process first, before the command line allocates, because the memory of that process must be that
// of the daemon.
func execute(ctx context.Context, args []string) int {
	if len(args) == 2 && args[0] == bench.Process {
		role := bench.Role{
			Name:    args[1],
			Environ: os.Environ(),
			Stdin:   os.Stdin,
			Stdout:  os.Stdout,
			Stderr:  os.Stderr,
		}
		return exitCode(role.Run(ctx))
	}
	s := &session{stdout: os.Stdout, stderr: os.Stderr}
	var c cli
	parser := kong.Must(
		&c,
		kong.Name("bench"),
		kong.Description("Measures Rubato on this machine, beside the machine's own limits."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.Writers(s.stdout, s.stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
	)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		_, _ = fmt.Fprintf(s.stderr, "bench: %v\nTry: go run ./test/bench --help\n", err)
		return app.ExitUsage
	}
	s.json = c.Output == "json"
	return exitCode(command.Run())
}

// exitCode prints an error and returns its exit code.
func exitCode(err error) int {
	if err == nil {
		return app.ExitOK
	}
	_, _ = fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	return app.ExitCode(err)
}

// readDuration parses a duration with its unit, including days.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var written string
	if err := ctx.Scan.PopValueInto("duration", &written); err != nil {
		return err
	}
	d, err := notation.ParseDuration(written, "")
	if err != nil {
		return fmt.Errorf("%q is no duration; give a number with its unit, such as 20s or 30m", written)
	}
	target.Set(reflect.ValueOf(d))
	return nil
}

// report prints the report of a bench.
func (s *session) report(r bench.Report) error {
	if s.json {
		encoder := json.NewEncoder(s.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, t := range r.Tables() {
		_, _ = fmt.Fprintln(w, t.Title) // Flush returns the first error of all writes.
		for _, row := range append([][]string{t.Header}, t.Rows...) {
			_, _ = fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	for _, note := range r.Notes {
		_, _ = fmt.Fprintln(w, note)
	}
	return w.Flush()
}
