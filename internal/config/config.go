// Package config turns the environment into typed settings. The list in settings.go is the only
// source of the names: [Load] accepts it, `rubato config` prints it, and docs/configuration.md is
// generated from it.
//
// Every program reads the same settings. An invalid value stops a program at its start. One error
// lists all problems: unknown names, invalid values, and durations that do not fit each other.
package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Config holds the settings of a program, with defaults filled in.
type Config struct {
	Database Database
	API      API
	Admin    Admin
	Client   Client
	Egress   Egress
	Worker   Worker
	Planner  Planner
	Secrets  Secrets
	Model    Model
	Mail     Mail
	Log      Log
	Trace    Trace
}

// Database is the address of Postgres.
type Database struct {
	// URL is for queries. It may lead to a connection pooler.
	URL string
	// DirectURL is for LISTEN and migrations, which need a session. It must not lead to a pooler in
	// transaction mode. The default is URL.
	DirectURL string
}

// API holds the settings of the API server.
type API struct {
	// Listen is host:port; port 0 chooses a free port.
	Listen string
	// BootstrapKey is created with the admin scope if it does not exist; empty for none.
	BootstrapKey string
	// Rate is the rate limit of a tenant, in requests per second; 0 for no limit.
	Rate int
	// Keys is the maximum number of valid API keys of a tenant.
	Keys int
	// Waiting is the maximum number of queued one-off runs of an endpoint.
	Waiting int
	// Origins are the origins that CORS permits.
	Origins []string
	// Proxies are the prefixes of reverse proxies whose X-Forwarded-For is trusted.
	Proxies []netip.Prefix
	// PublicURL is the URL of the console and the API for users, without a trailing slash. If it is
	// empty, notices have no links.
	PublicURL string
	// Metrics serves /metrics on the API listener in addition to the admin listener.
	Metrics bool
}

// Admin is the listener for metrics, health and profiles.
type Admin struct {
	// Listen is host:port; port 0 chooses a free port.
	Listen string
}

// Client holds the server and the API key of the command line.
type Client struct {
	// URL is empty if the command line shall use the running dev server.
	URL string
	// Key is also accepted by a dev server.
	Key string
}

// Secrets holds the encryption keys of secrets.
type Secrets struct {
	// Keys are sorted from newest to oldest. If there are none, no secret can be stored.
	Keys []SecretKey
}

// SecretKey is an encryption key of secrets.
type SecretKey struct {
	// ID is stored beside each encrypted value.
	ID string
	// Bytes has length 32.
	Bytes []byte
}

// Worker holds the settings of the scheduler-worker. relations.go holds the rules between its
// durations.
type Worker struct {
	// Slots is the maximum number of concurrent runs.
	Slots int
	// MinSlots is the lower limit to which an overloaded worker reduces its slots.
	MinSlots int
	// Tags are the worker's tags, sorted.
	Tags []string
	// Exclusive workers run only endpoints that require one of Tags.
	Exclusive bool
	// Horizon is how long before their due time endpoints are claimed.
	Horizon time.Duration
	// PollInterval is the interval between claims.
	PollInterval time.Duration
	// LockTTL is the maximum duration of a lock. Heartbeats extend it every third of it.
	LockTTL time.Duration
	// StaleAfter is the time without a heartbeat after which a worker counts as dead.
	StaleAfter time.Duration
	// Settle is how long after a database outage the sweeper waits before it declares workers dead.
	Settle time.Duration
	// SweepInterval is the interval between sweeps.
	SweepInterval time.Duration
	// ShutdownGrace is how long runs may continue after the first signal.
	ShutdownGrace time.Duration
	// RunRetention is the retention of the run history.
	RunRetention time.Duration
	// BodyRetention is the retention of captured response bodies.
	BodyRetention time.Duration
	// AuditRetention is the retention of the audit log.
	AuditRetention time.Duration
	// LetterRetention is the retention of dead letters.
	LetterRetention time.Duration
}

// Log holds the level and the format of log lines.
type Log struct {
	Level  slog.Level
	Format Format
}

// Format is the format of log lines.
type Format string

// Formats of log lines.
const (
	// FormatAuto is text on a terminal, otherwise JSON.
	FormatAuto Format = "auto"
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// prefix marks Rubato's own names. An unknown name with this prefix is an error, so that a typing
// mistake does not go unnoticed.
const prefix = "RUBATO_"

// Program holds the differences of one program from the others. The zero value requires no setting.
type Program struct {
	// Required lists the names that must be set.
	Required []string
	// Defaults replaces defaults, by name.
	Defaults map[string]string
}

// Load reads the settings of a program from an environment, a list of name=value as [os.Environ]
// returns. It also reads the files that variables with [FileSuffix] name. An empty value counts as
// not set. The error is a [*Error] that lists every problem.
func Load(environ []string, p Program) (Config, error) {
	env := readEnvironment(environ)
	problems, broken := slices.Concat(misnamed(env.unknown), env.problems), env.broken
	var cfg Config
	for _, s := range settings() {
		if broken[s.Name] {
			continue
		}
		from, found := env.given[s.Name]
		if !found {
			from = variable{
				name:  s.Name,
				value: p.fallback(s),
			}
		}
		if from.value == "" {
			if slices.Contains(p.Required, s.Name) {
				problems = append(problems, s.Name+" is not set: "+s.Doc)
			}
			continue
		}
		if err := s.set(&cfg, from.value); err != nil {
			broken[s.Name] = true
			problems = append(problems, fmt.Sprintf("%s: %s%s", from.name, err, s.quote(from.value)))
		}
	}
	if cfg.Database.DirectURL == "" {
		cfg.Database.DirectURL = cfg.Database.URL
	}
	if cfg.Worker.MinSlots == 0 {
		cfg.Worker.MinSlots = max(1, cfg.Worker.Slots/8)
	}
	problems = append(problems, misfits(cfg.Worker, broken)...)
	problems = append(problems, cfg.Trace.exportProblems()...)
	problems = append(problems, modelProblems(cfg.Model, broken)...)
	problems = append(problems, mailProblems(cfg.Mail, broken)...)
	if len(problems) > 0 {
		return Config{}, &Error{Problems: problems}
	}
	return cfg, nil
}

// fallback returns the default of a setting for this program.
func (p Program) fallback(s Setting) string {
	if own, has := p.Defaults[s.Name]; has {
		return own
	}
	return s.Default
}

// Error lists all problems of an environment.
type Error struct {
	// Problems are one sentence each, without secrets.
	Problems []string
}

// Error returns the problems, one per line.
func (e *Error) Error() string {
	return "the configuration is not valid:\n  - " + strings.Join(e.Problems, "\n  - ")
}
