// Package config turns the environment into typed settings. The list in settings.go is the only authority on what may be set: it is
// what [Load] accepts, what `rubato config` prints, and what docs/configuration.md must show.
//
// Every program reads the same settings. A value that cannot be right stops a program before it does anything, and one error names
// every problem at once: unknown names, values that cannot be read, and durations that do not fit each other.
package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Config is what the environment sets, defaults filled in.
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

// Database says where Postgres is.
type Database struct {
	URL       string // for queries; may go through a pooler
	DirectURL string // for LISTEN and migrations, past any pooler; the same as URL unless set
}

// API is what the API server needs.
type API struct {
	Listen       string   // host:port; port 0 takes a free one
	BootstrapKey string   // an admin key that is made sure to exist; empty: none
	Rate         int      // requests a second that the keys of one tenant may send; 0: any number
	Keys         int      // keys in force that one tenant may have
	Waiting      int      // one-off runs of an endpoint that may wait
	Origins      []string // whose scripts may read answers (CORS); empty: nobody's
	// Proxies are the prefixes of proxies whose word about where a request comes from is believed; empty: nobody's.
	Proxies []netip.Prefix
	// PublicURL is where people reach the console and the API, without a slash at the end; empty: notices have no links.
	PublicURL string
	Metrics   bool // /metrics is served beside the API, not by the admin listener alone
}

// Admin is the listener for metrics, health and profiles.
type Admin struct {
	Listen string // host:port; port 0 takes a free one
}

// Client is how the command line reaches a server.
type Client struct {
	URL string // empty: a running dev server is looked for
	Key string // also the key that a dev server serves
}

// Secrets says how secrets are encrypted.
type Secrets struct {
	Keys []SecretKey // the newest first; empty: secrets cannot be kept
}

// SecretKey is a key that secrets are encrypted under.
type SecretKey struct {
	ID    string // stored beside what is encrypted
	Bytes []byte // 32 of them
}

// Worker is what the scheduler-worker follows. Its durations fit each other; see relations.go.
type Worker struct {
	Slots         int           // runs in progress at once, at most
	MinSlots      int           // how few the worker may come down to where it cannot take more
	Horizon       time.Duration // how far ahead of their due time endpoints are claimed
	PollInterval  time.Duration // between claims
	LockTTL       time.Duration // the longest lock that is granted at once; heartbeats come every third of it
	StaleAfter    time.Duration // silence after which a worker counts as gone
	Settle        time.Duration // how long the sweeper watches, after an outage, before silence counts
	SweepInterval time.Duration // between sweeps
	ShutdownGrace time.Duration // how long runs may go on after the first signal
	RunRetention  time.Duration // how long history is kept
	BodyRetention time.Duration // how long captured answers are kept
	// AuditRetention is how long the audit log is kept.
	AuditRetention time.Duration
}

// Log is what is logged, and how.
type Log struct {
	Level  slog.Level
	Format Format
}

// Format is how log lines look.
type Format string

// The formats.
const (
	FormatAuto Format = "auto" // text on a terminal, else JSON
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// prefix marks the names that belong to Rubato: one that is not in the list is refused, not ignored.
const prefix = "RUBATO_"

// Program says how one program differs from the others. The zero value is one that can start with an empty environment.
type Program struct {
	Required []string          // names that must be set
	Defaults map[string]string // defaults of its own, by name
}

// Load reads the settings of a program from an environment, a list of name=value such as [os.Environ] returns, and from the files that
// variables with [FileSuffix] name. An empty value counts as not set. The error is a [*Error] that lists every problem.
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
			from = variable{name: s.Name, value: p.fallback(s)}
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
	problems = append(problems, cfg.Trace.unsendable()...)
	problems = append(problems, modelless(cfg.Model, broken)...)
	problems = append(problems, halfMail(cfg.Mail, broken)...)
	if len(problems) > 0 {
		return Config{}, &Error{Problems: problems}
	}
	return cfg, nil
}

// fallback returns the value of a setting that the environment does not give.
func (p Program) fallback(s Setting) string {
	if own, has := p.Defaults[s.Name]; has {
		return own
	}
	return s.Default
}

// Error lists everything that is wrong with an environment.
type Error struct {
	Problems []string // one sentence each, without secrets
}

// Error returns the problems, one a line.
func (e *Error) Error() string {
	return "the configuration is not valid:\n  - " + strings.Join(e.Problems, "\n  - ")
}
