// Command rubato is the command line of Rubato. `rubato dev` runs all programs on one machine, and
// `rubato migrate` prepares a database. Other commands call a server; the default is the dev server
// on this machine.
//
// Exit codes: 0 success; 1 failure; 2 invalid command line, environment or input; 3 object not
// found; 4 conflict with the state of the object.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"rubato/client"
	"rubato/internal/app"
	"rubato/internal/config"
)

// cli is the kong model of the command line.
type cli struct {
	Output string `enum:"table,json" default:"table" short:"o" placeholder:"FORMAT" help:"Output format: table or json."`
	Server string `placeholder:"URL" help:"Server URL. Default: RUBATO_URL, otherwise the running dev server."`
	APIKey string `name:"api-key" placeholder:"KEY" help:"API key. Default: RUBATO_API_KEY, otherwise the key of the dev server."`

	ShowVersion versionFlag `name:"version" help:"Print the version, same as the command version."`

	Dev         devCmd         `cmd:"" help:"Run everything on this machine: API server, worker, planner and a private Postgres."`
	Endpoints   endpointsCmd   `cmd:"" help:"Register, change and inspect endpoints."`
	Test        testCmd        `cmd:"" help:"Send the request of an endpoint once without registering it. For example: rubato test -f endpoint.json"`
	Hints       hintsCmd       `cmd:"" help:"Set hints: propose another tempo within an endpoint's bounds."`
	Runs        runsCmd        `cmd:"" help:"List, inspect, watch and cancel runs."`
	Calls       callsCmd       `cmd:"" help:"Send requests once, now or later, and list, show or cancel them."`
	DeadLetters deadLettersCmd `cmd:"" help:"List runs that were given up, replay or discard them."`
	Chains      chainsCmd      `cmd:"" help:"Store chains of runs, start and cancel their runs."`
	Stats       statsCmd       `cmd:"" help:"Print the number of due and running endpoints, and statistics of recent runs."`
	Workers     workersCmd     `cmd:"" help:"Print, drain and resume workers."`
	Planner     plannerCmd     `cmd:"" help:"Inspect the planner's analyses, and approve or reject its suggestions."`
	Notices     noticesCmd     `cmd:"" help:"Configure notices about failures, and list the sent ones."`
	Keys        keysCmd        `cmd:"" help:"Manage API keys. Needs a key with the scope admin."`
	Hosts       hostsCmd       `cmd:"" help:"Show target hosts and their circuit breakers."`
	Budgets     budgetsCmd     `cmd:"" help:"Manage budgets of runs that endpoints share."`
	Secrets     secretsCmd     `cmd:"" help:"Manage secrets for requests. Their values are write-only."`
	SigningKeys signingKeysCmd `cmd:"" help:"Manage the keys that sign requests. Needs a key with the scope admin."`
	Changes     changesCmd     `cmd:"" help:"Print the audit log, newest change first. Needs a key with the scope admin."`
	Info        serverCmd      `cmd:"" name:"server" help:"Print the status and the API contract of a server."`
	MCP         mcpCmd         `cmd:"" name:"mcp" help:"Connect an AI agent to the server over the Model Context Protocol (MCP), on standard input and output."`
	Explain     explainCmd     `cmd:"" help:"Compute offline when endpoints would run: reads one JSON object per line, writes one decision per line."`
	Simulate    simulateCmd    `cmd:"" help:"Simulate endpoints offline: compare how soon policies find changes. For example: rubato simulate examples/fleets/bursts.yaml --days 1"`
	Backtest    backtestCmd    `cmd:"" help:"Compare policies on the recorded runs of an endpoint: how soon each would have found the changes."`
	Migrate     migrateCmd     `cmd:"" help:"Migrate the schema of the database in DATABASE_URL."`
	Tenants     tenantsCmd     `cmd:"" help:"Manage the egress allow lists of tenants, in the database in DATABASE_URL. For operators."`
	Audit       auditCmd       `cmd:"" help:"Check the guarantees against the run history of the database in DATABASE_URL. Read-only."`
	Replay      replayCmd      `cmd:"" help:"Make recorded decisions of the database in DATABASE_URL again, and compare. Read-only."`
	Completion  completionCmd  `cmd:"" help:"Print a shell completion script for bash, zsh or fish. For example: source <(rubato completion bash)"`
	Config      configCmd      `cmd:"" help:"Print the effective settings, with secrets redacted."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// newCLI returns the command line, including the flags generated from the contract.
func newCLI() *cli {
	var c cli
	c.Endpoints.Create.fieldFlags, c.Endpoints.Edit.fieldFlags = newFieldFlags(), newFieldFlags()
	return &c
}

// serverFlag is --url, a synonym of --server after RUBATO_URL. Commands with another flag --url
// leave it out.
type serverFlag struct {
	URL string `name:"url" placeholder:"URL" help:"Same as --server."`
}

// AfterApply stores the URL in the session.
func (f serverFlag) AfterApply(s *session) error { //nolint:unparam // Kong requires the error result.
	s.url = f.URL
	return nil
}

// session holds the streams, the environment and the global flags of one command.
type session struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	environ []string
	// json selects JSON output instead of tables.
	json bool
	// url and key are those of --server and --api-key; empty: absent.
	url string
	key string
}

func main() {
	ctx, stop := app.WithSignals(context.Background())
	s := &session{
		stdin:   os.Stdin,
		stdout:  os.Stdout,
		stderr:  os.Stderr,
		environ: os.Environ(),
	}
	code := s.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes the command and returns the exit code.
func (s *session) run(ctx context.Context, args []string) int {
	c := newCLI()
	parser := kong.Must(
		c,
		kong.Name("rubato"),
		kong.Description("Rubato calls HTTP endpoints on a schedule whose tempo adapts."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.Writers(s.stdout, s.stderr),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(readDuration)),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(readInstant)),
	)
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err == nil {
		err = namesNothing(command)
	}
	if err != nil {
		s.json = asksForJSON(args)
		s.complain(misread(parser, command, err))
		return app.ExitUsage
	}
	s.json, s.key = c.Output == "json", c.APIKey
	if c.Server != "" {
		s.url = c.Server
	}
	if err := command.Run(); err != nil {
		s.complain(err)
		return exitCode(err)
	}
	return app.ExitOK
}

// namesNothing returns an error for an empty name, "." or "..". In a URL path, these would address
// another route of the API. An empty value of a filter flag, e.g. from an unset shell variable,
// would select all objects.
func namesNothing(command *kong.Context) error {
	for _, part := range command.Path {
		var what string
		switch {
		case part.Positional != nil:
			what = part.Positional.Summary()
		case part.Flag != nil && slices.Contains([]string{"endpoint", "key", "rule", "object", "by"}, part.Flag.Name):
			what = "--" + part.Flag.Name
		default:
			continue
		}
		if name, is := reflect.TypeAssert[string](command.Value(part)); is && (name == "" || name == "." || name == "..") {
			return fmt.Errorf("%s: %q names nothing", what, name)
		}
	}
	return nil
}

// asksForJSON reports whether the arguments contain -o json. It is for command lines that kong
// cannot parse.
func asksForJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			if i+1 < len(args) && args[i+1] == "json" {
				return true
			}
		}
	}
	return false
}

// usageError is an error in the use of a command, with exit code 2.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// silentError sets the exit code without a message, because the command has printed the failure
// already.
type silentError struct{}

func (silentError) Error() string { return "" }

func exitCode(err error) int {
	if refused, ok := errors.AsType[*client.Problem](err); ok {
		return exitCodeOf(refused)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return app.ExitUsage
	}
	if _, ok := errors.AsType[*config.Error](err); ok {
		return app.ExitUsage
	}
	return app.ExitCode(err)
}

// settings loads the configuration from the environment, with the defaults of a program.
func (s *session) settings(p config.Program) (config.Config, error) { return config.Load(s.environ, p) }
