package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log" //nolint:depguard // NewLogger redirects it to slog.
	"log/slog"
	"text/tabwriter"

	"rubato/internal/config"
	"rubato/internal/errs"
	"rubato/internal/telemetry"
)

// Exit codes of every program.
const (
	ExitOK      = 0
	ExitFailure = 1 // may succeed when tried again or after an outage
	ExitUsage   = 2 // invalid flags or environment

	// Exit codes of the command line alone.
	ExitNotFound = 3 // the object does not exist
	ExitConflict = 4 // the object's state does not allow the operation
)

// ExitCode returns the exit code for the kind of an error.
func ExitCode(err error) int {
	switch errs.CodeOf(err) {
	case errs.Malformed, errs.Invalid:
		return ExitUsage
	case errs.NotFound:
		return ExitNotFound
	case errs.Conflict, errs.Precondition:
		return ExitConflict
	case errs.Unauthorized, errs.Forbidden, errs.Exhausted, errs.Unavailable, errs.Internal, errs.Unreadable:
	}
	return ExitFailure
}

// Daemon is a program that is configured by its environment and runs until a signal.
type Daemon struct {
	Name string
	// Doc describes the program in one sentence.
	Doc string
	Run func(ctx context.Context, settings config.Config, logger *slog.Logger) error
}

// Main runs the daemon with command line arguments and an environment, and returns its exit code.
// Log lines, help and errors go to out.
func (d Daemon) Main(ctx context.Context, args, environ []string, out io.Writer) int {
	flags := flag.NewFlagSet(d.Name, flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { d.help(flags) }
	health := flags.Bool("health", false, "check whether the program that runs with this environment is ready; exit 0 or 1")
	version := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return ExitOK
	case err != nil:
		return ExitUsage
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(out, "%s takes no arguments; see --help\n", d.Name)
		return ExitUsage
	case *version:
		_, _ = fmt.Fprintln(out, telemetry.Version())
		return ExitOK
	}
	settings, err := config.Load(environ, config.Program{Required: []string{config.DatabaseURL}})
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
		return ExitUsage
	}
	if *health {
		return d.report(out, CheckReady(ctx, settings.Admin.Listen))
	}
	return d.report(out, Interrupted(ctx, d.Run(ctx, settings, NewLogger(out, settings.Log))))
}

func (d Daemon) report(out io.Writer, err error) int {
	if err != nil {
		_, _ = fmt.Fprintf(out, "%s: %s\n", d.Name, err)
		return ExitFailure
	}
	return ExitOK
}

// help prints the flags and every setting.
func (d Daemon) help(flags *flag.FlagSet) {
	out := flags.Output()
	_, _ = fmt.Fprintf(out, "%s: %s\n\nFlags:\n", d.Name, d.Doc)
	flags.PrintDefaults()
	_, _ = fmt.Fprint(out, "\nEnvironment, each also as NAME_FILE with the path of a file that holds the value:\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range config.Settings() {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", s.Name, s.Default, s.Doc)
	}
	_ = table.Flush()
}

// NewLogger returns the logger that the settings ask for. It also redirects the standard logger to
// it at debug level, because libraries write lines there that are neither structured nor bounded.
func NewLogger(out io.Writer, settings config.Log) *slog.Logger {
	logger := telemetry.NewLogger(out, settings.Level, telemetry.Format(settings.Format))
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
	return logger
}

// Interrupted returns the error of a program, or nil if a signal interrupted its start.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Version returns the version of this build.
func Version() string { return telemetry.Version() }

// Commit returns the full commit ID of this build, or "" if it is not known.
func Commit() string { return telemetry.Commit() }
