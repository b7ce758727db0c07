package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rubato/internal/placement"
)

// Names that code refers to. All other names are in the list of settings only.
const (
	DatabaseURL     = "DATABASE_URL"
	PublicMetrics   = "RUBATO_PUBLIC_METRICS"
	Listen          = "RUBATO_LISTEN"
	AdminListen     = "RUBATO_ADMIN_LISTEN"
	ServerURL       = "RUBATO_URL"
	APIKey          = "RUBATO_API_KEY"
	maxSlotsName    = "RUBATO_SLOTS"
	minSlotsName    = "RUBATO_SLOTS_MIN"
	workerTags      = "RUBATO_WORKER_TAGS"
	workerExclusive = "RUBATO_WORKER_EXCLUSIVE"
	horizon         = "RUBATO_HORIZON"
	pollInterval    = "RUBATO_POLL_INTERVAL"
	lockTTL         = "RUBATO_LOCK_TTL"
	staleAfter      = "RUBATO_STALE_AFTER"
	settle          = "RUBATO_SETTLE"
	sweep           = "RUBATO_SWEEP_INTERVAL"
	Grace           = "RUBATO_SHUTDOWN_GRACE"
	LogLevel        = "RUBATO_LOG_LEVEL"
	LogFormat       = "RUBATO_LOG_FORMAT"
	SecretKeys      = "RUBATO_SECRET_KEYS"
)

// Setting is one environment variable.
type Setting struct {
	Name string
	// Default is in the notation of the environment; empty for none.
	Default string
	// Doc is one sentence without a capital letter and a full stop.
	Doc string
	// Secret settings are never shown.
	Secret bool

	// url shows a secret as a URL without its password and parameters.
	url bool
	// set parses a value. Its error states the right form and does not repeat the value.
	set func(*Config, string) error
	// show returns the value in force, before secrets are redacted.
	show func(Config) string
}

// Settings returns every setting, in the order of the documentation.
func Settings() []Setting { return settings() }

func settings() []Setting {
	list := []Setting{
		{
			Name:   DatabaseURL,
			Doc:    "Postgres 15 or later, as a postgres:// URL",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return databaseURL(&c.Database.URL, v) },
			show:   func(c Config) string { return c.Database.URL },
		},
		{
			Name:   "RUBATO_DATABASE_DIRECT_URL",
			Doc:    "the same database without a connection pooler in between, for LISTEN and migrations; default: DATABASE_URL",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return databaseURL(&c.Database.DirectURL, v) },
			show:   func(c Config) string { return c.Database.DirectURL },
		},
	}
	list = append(list, apiSettings()...)
	list = append(list, public()...)
	list = append(
		list,
		Setting{
			Name:   ServerURL,
			Doc:    "URL of the server that the command line calls; default: the running dev server",
			Secret: true,
			url:    true,
			set:    func(c *Config, v string) error { return baseURL(&c.Client.URL, v) },
			show:   func(c Config) string { return c.Client.URL },
		},
		Setting{
			Name:   APIKey,
			Doc:    "API key of the command line; rubato dev also accepts it",
			Secret: true,
			set:    func(c *Config, v string) error { return key(&c.Client.Key, v) },
			show:   func(c Config) string { return c.Client.Key },
		},
		Setting{
			Name:   SecretKeys,
			Doc:    "encryption keys of secrets, the newest first, as id:base64 of 32 random bytes, comma-separated; without a key no secret can be stored",
			Secret: true,
			set:    func(c *Config, v string) error { return secretKeys(&c.Secrets.Keys, v) },
			show:   func(c Config) string { return shownKeys(c.Secrets.Keys) },
		},
	)
	list = append(list, egressSettings()...)
	list = append(list, hostSettings()...)
	list = append(list, slots()...)
	list = append(list, tagSettings()...)
	list = append(list, workerDurations()...)
	list = append(list, plannerSettings()...)
	list = append(list, modelSettings()...)
	list = append(list, mailSettings()...)
	list = append(
		list,
		Setting{
			Name:    LogLevel,
			Default: "info",
			Doc:     "minimum level of log lines: debug, info, warn or error",
			set:     func(c *Config, v string) error { return level(&c.Log.Level, v) },
			show:    func(c Config) string { return strings.ToLower(c.Log.Level.String()) },
		},
		Setting{
			Name:    LogFormat,
			Default: "auto",
			Doc:     "format of log lines: text, json, or auto (text on a terminal, otherwise json)",
			set:     func(c *Config, v string) error { return format(&c.Log.Format, v) },
			show:    func(c Config) string { return string(c.Log.Format) },
		},
	)
	return append(list, traces()...)
}

// apiSettings returns the settings of the API server and of the admin listener.
func apiSettings() []Setting {
	return []Setting{
		{
			Name:    Listen,
			Default: ":8080",
			Doc:     "address on which the API server listens, as host:port",
			set:     func(c *Config, v string) error { return address(&c.API.Listen, v) },
			show:    func(c Config) string { return c.API.Listen },
		},
		{
			Name:    AdminListen,
			Default: "127.0.0.1:9090",
			Doc:     "address on which each daemon serves metrics, health and profiles, as host:port",
			set:     func(c *Config, v string) error { return address(&c.Admin.Listen, v) },
			show:    func(c Config) string { return c.Admin.Listen },
		},
		{
			Name:   "RUBATO_BOOTSTRAP_API_KEY",
			Doc:    "API key with the admin scope that the API server creates if it is missing; at least 8 characters",
			Secret: true,
			set:    func(c *Config, v string) error { return key(&c.API.BootstrapKey, v) },
			show:   func(c Config) string { return c.API.BootstrapKey },
		},
		{
			Name:    "RUBATO_API_RATE",
			Default: "500",
			Doc:     "rate limit of one tenant at one API server, in requests per second; bursts of ten seconds' worth are allowed; 0: no limit",
			set:     func(c *Config, v string) error { return rate(&c.API.Rate, v) },
			show:    func(c Config) string { return strconv.Itoa(c.API.Rate) },
		},
		{
			Name:    "RUBATO_KEYS_PER_TENANT",
			Default: "200",
			Doc:     "maximum number of valid API keys per tenant; existing keys above it stay valid",
			set:     func(c *Config, v string) error { return keyLimit(&c.API.Keys, v) },
			show:    func(c Config) string { return strconv.Itoa(c.API.Keys) },
		},
		{
			Name:    "RUBATO_WAITING_RUNS_PER_ENDPOINT",
			Default: "1000",
			Doc:     "maximum number of queued one-off runs per endpoint; further requests get status 429",
			set:     func(c *Config, v string) error { return waitingLimit(&c.API.Waiting, v) },
			show:    func(c Config) string { return strconv.Itoa(c.API.Waiting) },
		},
	}
}

// public returns the settings of access to the API server.
func public() []Setting {
	return []Setting{
		{
			Name: "RUBATO_CORS_ORIGINS",
			Doc:  "comma-separated origins that CORS permits, such as https://console.example.com; default: none",
			set:  func(c *Config, v string) error { return origins(&c.API.Origins, v) },
			show: func(c Config) string { return strings.Join(c.API.Origins, ",") },
		},
		{
			Name: "RUBATO_TRUSTED_PROXIES",
			Doc:  "comma-separated prefixes of the reverse proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8; default: none",
			set:  func(c *Config, v string) error { return prefixes(&c.API.Proxies, v) },
			show: func(c Config) string { return joined(c.API.Proxies) },
		},
		{
			Name: "RUBATO_PUBLIC_URL",
			Doc:  "public URL of the console and the API, such as https://rubato.example.com; notices link to it, and targets of asynchronous runs call back below it; default: no links and no callbacks",
			set:  func(c *Config, v string) error { return publicURL(&c.API.PublicURL, v) },
			show: func(c Config) string { return c.API.PublicURL },
		},
		{
			Name:    PublicMetrics,
			Default: "false",
			Doc:     "true: the API listener also serves /metrics, without authentication",
			set:     func(c *Config, v string) error { return choice(&c.API.Metrics, v) },
			show:    func(c Config) string { return strconv.FormatBool(c.API.Metrics) },
		},
	}
}

// slots returns the settings of the concurrent runs of a worker.
func slots() []Setting {
	return []Setting{
		{
			Name:    maxSlotsName,
			Default: "2048",
			Doc:     "maximum number of concurrent runs of one worker; it starts with 1024 slots and adds more while slow targets hold them",
			set:     func(c *Config, v string) error { return count(&c.Worker.Slots, v) },
			show:    func(c Config) string { return strconv.Itoa(c.Worker.Slots) },
		},
		{
			Name: minSlotsName,
			Doc:  "minimum number of slots to which an overloaded worker, or one short of memory, reduces itself; default: an eighth of RUBATO_SLOTS",
			set:  func(c *Config, v string) error { return count(&c.Worker.MinSlots, v) },
			show: func(c Config) string { return strconv.Itoa(c.Worker.MinSlots) },
		},
	}
}

// tagSettings returns the settings of the tags of a worker.
func tagSettings() []Setting {
	return []Setting{
		{
			Name: workerTags,
			Doc:  "comma-separated tags of the worker, such as region=eu,net=internal; it runs endpoints whose requiredTags it has; default: none",
			set:  func(c *Config, v string) (err error) { c.Worker.Tags, err = placement.Parse(v); return err },
			show: func(c Config) string { return strings.Join(c.Worker.Tags, ",") },
		},
		{
			Name:    workerExclusive,
			Default: "false",
			Doc:     "true: the worker runs only endpoints that require one of its tags",
			set:     func(c *Config, v string) error { return choice(&c.Worker.Exclusive, v) },
			show:    func(c Config) string { return strconv.FormatBool(c.Worker.Exclusive) },
		},
	}
}

// workerDurations returns the durations of the worker, with the bounds of each. relations.go holds
// the rules between them.
func workerDurations() []Setting {
	const day = 24 * time.Hour
	field := func(name, def, doc string, in span, of func(*Worker) *time.Duration) Setting {
		return Setting{
			Name:    name,
			Default: def,
			Doc:     doc,
			set:     func(c *Config, v string) error { return in.read(of(&c.Worker), v) },
			show:    func(c Config) string { return brief(*of(&c.Worker)) },
		}
	}
	return []Setting{
		field(horizon, "10s", "how long before their due time endpoints are claimed",
			span{time.Second, time.Minute}, func(w *Worker) *time.Duration { return &w.Horizon }),
		field(pollInterval, "1s", "interval at which a worker polls for due endpoints",
			span{10 * time.Millisecond, time.Minute}, func(w *Worker) *time.Duration { return &w.PollInterval }),
		field(lockTTL, "60s", "maximum duration of a lock; longer runs extend it every third of this",
			span{6 * time.Second, 10 * time.Minute}, func(w *Worker) *time.Duration { return &w.LockTTL }),
		field(staleAfter, "90s", "time without a heartbeat after which a worker counts as dead",
			span{time.Second, time.Hour}, func(w *Worker) *time.Duration { return &w.StaleAfter }),
		field(settle, "180s", "how long after a database outage the sweeper waits before it declares workers dead",
			span{time.Second, 2 * time.Hour}, func(w *Worker) *time.Duration { return &w.Settle }),
		field(sweep, "10s", "interval at which the sweeper looks for runs of dead workers",
			span{100 * time.Millisecond, 10 * time.Minute}, func(w *Worker) *time.Duration { return &w.SweepInterval }),
		field(Grace, "30s", "how long runs may continue during a graceful shutdown",
			span{0, time.Hour}, func(w *Worker) *time.Duration { return &w.ShutdownGrace }),
		field("RUBATO_RUN_RETENTION", "720h", "retention of the run history, with the decisions and hints that explain it; whole days are dropped",
			span{day, 3660 * day}, func(w *Worker) *time.Duration { return &w.RunRetention }),
		field("RUBATO_BODY_RETENTION", "168h", "retention of captured response bodies; whole days are dropped",
			span{day, 3660 * day}, func(w *Worker) *time.Duration { return &w.BodyRetention }),
		field("RUBATO_AUDIT_RETENTION", "8760h", "retention of the audit log",
			span{day, 36600 * day}, func(w *Worker) *time.Duration { return &w.AuditRetention }),
		field("RUBATO_DEAD_LETTER_RETENTION", "720h", "retention of dead letters, from when their runs were given up",
			span{day, 3660 * day}, func(w *Worker) *time.Duration { return &w.LetterRetention }),
	}
}

// Row is a setting with the value in force.
type Row struct {
	Name string `json:"name"`
	// Value is empty if the setting is not set. Secrets are redacted.
	Value string `json:"value"`
	Doc   string `json:"doc"`
}

// Redacted returns every setting with the value in force. Secrets are redacted.
func (c Config) Redacted() []Row {
	rows := make([]Row, 0, len(settings()))
	for _, s := range settings() {
		value := s.show(c)
		switch {
		case value == "" || !s.Secret:
		case s.url:
			value = redact(value)
		default:
			value = hidden
		}
		rows = append(rows, Row{
			Name:  s.Name,
			Value: value,
			Doc:   s.Doc,
		})
	}
	return rows
}

// quote returns a value for an error message, or "" if it is secret.
func (s Setting) quote(value string) string {
	if s.Secret {
		return ""
	}
	return fmt.Sprintf(" (it is %q)", value)
}

// hidden replaces secret values.
const hidden = "***"

// redact returns a URL without its password, parameters and fragment. Scheme, user, host and path
// stay, so that a reader can distinguish databases.
func redact(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" && u.Path == "" || u.Scheme == "" {
		return hidden
	}
	if _, given := u.User.Password(); given {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.Replace(u.String(), "%2A%2A%2A", hidden, 1)
}
