package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The names that code asks for by name; every other is in the list only.
const (
	DatabaseURL   = "DATABASE_URL"
	PublicMetrics = "RUBATO_PUBLIC_METRICS"
	Listen        = "RUBATO_LISTEN"
	AdminListen   = "RUBATO_ADMIN_LISTEN"
	ServerURL     = "RUBATO_URL"
	APIKey        = "RUBATO_API_KEY"
	maxSlotsName  = "RUBATO_SLOTS"
	minSlotsName  = "RUBATO_SLOTS_MIN"
	horizon       = "RUBATO_HORIZON"
	pollInterval  = "RUBATO_POLL_INTERVAL"
	lockTTL       = "RUBATO_LOCK_TTL"
	staleAfter    = "RUBATO_STALE_AFTER"
	settle        = "RUBATO_SETTLE"
	sweep         = "RUBATO_SWEEP_INTERVAL"
	Grace         = "RUBATO_SHUTDOWN_GRACE"
	LogLevel      = "RUBATO_LOG_LEVEL"
	LogFormat     = "RUBATO_LOG_FORMAT"
	SecretKeys    = "RUBATO_SECRET_KEYS"
)

// Setting is one name that may be set.
type Setting struct {
	Name    string
	Default string // as it would be written; empty: none
	Doc     string // one sentence without a capital and a full stop
	Secret  bool   // never shown

	url  bool                        // what of a secret is no password and no parameter is shown
	set  func(*Config, string) error // reads a value; its error says what would be right
	show func(Config) string         // the value in force, before secrets are hidden
}

// Settings returns every setting, in the order in which people should read about them.
func Settings() []Setting { return settings() }

func settings() []Setting {
	list := []Setting{
		{
			Name: DatabaseURL, Doc: "Postgres 15 or later, as a postgres:// URL", Secret: true, url: true,
			set:  func(c *Config, v string) error { return databaseURL(&c.Database.URL, v) },
			show: func(c Config) string { return c.Database.URL },
		},
		{
			Name: "RUBATO_DATABASE_DIRECT_URL", Doc: "the same database past any pooler, for LISTEN and migrations; DATABASE_URL unless set", Secret: true, url: true,
			set:  func(c *Config, v string) error { return databaseURL(&c.Database.DirectURL, v) },
			show: func(c Config) string { return c.Database.DirectURL },
		},
	}
	list = append(list, apiSettings()...)
	list = append(list, public()...)
	list = append(
		list,
		Setting{
			Name: ServerURL, Doc: "the server that the command line talks to; a running dev server unless set", Secret: true, url: true,
			set:  func(c *Config, v string) error { return baseURL(&c.Client.URL, v) },
			show: func(c Config) string { return c.Client.URL },
		},
		Setting{
			Name: APIKey, Doc: "the key of the command line; rubato dev also serves it", Secret: true,
			set:  func(c *Config, v string) error { return key(&c.Client.Key, v) },
			show: func(c Config) string { return c.Client.Key },
		},
		Setting{
			Name: SecretKeys, Doc: "keys that secrets are encrypted under, the newest first, as id:base64 of 32 random bytes, comma-separated; without one secrets cannot be kept", Secret: true,
			set:  func(c *Config, v string) error { return secretKeys(&c.Secrets.Keys, v) },
			show: func(c Config) string { return shownKeys(c.Secrets.Keys) },
		},
	)
	list = append(list, egressSettings()...)
	list = append(list, slots()...)
	list = append(list, workerDurations()...)
	list = append(list, plannerSettings()...)
	list = append(list, modelSettings()...)
	list = append(list, mailSettings()...)
	list = append(
		list,
		Setting{
			Name: LogLevel, Default: "info", Doc: "the least level that is logged: debug, info, warn or error",
			set:  func(c *Config, v string) error { return level(&c.Log.Level, v) },
			show: func(c Config) string { return strings.ToLower(c.Log.Level.String()) },
		},
		Setting{
			Name: LogFormat, Default: "auto", Doc: "text, json, or auto: text on a terminal, else json",
			set:  func(c *Config, v string) error { return format(&c.Log.Format, v) },
			show: func(c Config) string { return string(c.Log.Format) },
		},
	)
	return append(list, traces()...)
}

// apiSettings are those of the API server and of the listener of metrics.
func apiSettings() []Setting {
	return []Setting{
		{
			Name: Listen, Default: ":8080", Doc: "where the API server listens, as host:port",
			set:  func(c *Config, v string) error { return address(&c.API.Listen, v) },
			show: func(c Config) string { return c.API.Listen },
		},
		{
			Name: AdminListen, Default: "127.0.0.1:9090", Doc: "where each daemon serves metrics, health and profiles, as host:port",
			set:  func(c *Config, v string) error { return address(&c.Admin.Listen, v) },
			show: func(c Config) string { return c.Admin.Listen },
		},
		{
			Name: "RUBATO_BOOTSTRAP_API_KEY", Doc: "an admin key that the API server makes sure exists, of at least 8 characters", Secret: true,
			set:  func(c *Config, v string) error { return key(&c.API.BootstrapKey, v) },
			show: func(c Config) string { return c.API.BootstrapKey },
		},
		{
			Name: "RUBATO_API_RATE", Default: "500", Doc: "how many requests a second the keys of one tenant may send to one API server, ten seconds' worth at once; 0: any number",
			set:  func(c *Config, v string) error { return rate(&c.API.Rate, v) },
			show: func(c Config) string { return strconv.Itoa(c.API.Rate) },
		},
		{
			Name: "RUBATO_KEYS_PER_TENANT", Default: "200", Doc: "how many API keys in force one tenant may have; those that it has beyond stay",
			set:  func(c *Config, v string) error { return keyLimit(&c.API.Keys, v) },
			show: func(c Config) string { return strconv.Itoa(c.API.Keys) },
		},
		{
			Name: "RUBATO_WAITING_RUNS_PER_ENDPOINT", Default: "1000", Doc: "how many one-off runs of one endpoint may wait at once; further requests are answered with 429",
			set:  func(c *Config, v string) error { return waitingLimit(&c.API.Waiting, v) },
			show: func(c Config) string { return strconv.Itoa(c.API.Waiting) },
		},
	}
}

// public returns the settings of who may see what of the API server.
func public() []Setting {
	return []Setting{
		{
			Name: "RUBATO_CORS_ORIGINS", Doc: "comma-separated origins whose scripts may read answers, such as https://console.example.com; nobody's unless set",
			set:  func(c *Config, v string) error { return origins(&c.API.Origins, v) },
			show: func(c Config) string { return strings.Join(c.API.Origins, ",") },
		},
		{
			Name: "RUBATO_TRUSTED_PROXIES", Doc: "comma-separated prefixes of the proxies in front of the API, such as 10.0.0.0/8, whose X-Forwarded-For is believed; nobody's unless set",
			set:  func(c *Config, v string) error { return prefixes(&c.API.Proxies, v) },
			show: func(c Config) string { return joined(c.API.Proxies) },
		},
		{
			Name: "RUBATO_PUBLIC_URL", Doc: "the URL at which people reach the console, such as https://rubato.example.com; notices link to it, and have no links unless it is set",
			set:  func(c *Config, v string) error { return publicURL(&c.API.PublicURL, v) },
			show: func(c Config) string { return c.API.PublicURL },
		},
		{
			Name: PublicMetrics, Default: "false", Doc: "true: the API's own listener serves /metrics too, to everybody who reaches it",
			set:  func(c *Config, v string) error { return choice(&c.API.Metrics, v) },
			show: func(c Config) string { return strconv.FormatBool(c.API.Metrics) },
		},
	}
}

// slots returns the settings of how many runs a worker has in progress.
func slots() []Setting {
	return []Setting{
		{
			Name: maxSlotsName, Default: "2048", Doc: "how many runs one worker has in progress at once, at most; it begins with 1024 and has more while slow targets hold them",
			set:  func(c *Config, v string) error { return count(&c.Worker.Slots, v) },
			show: func(c Config) string { return strconv.Itoa(c.Worker.Slots) },
		},
		{
			Name: minSlotsName, Doc: "how few it may come down to while its process falls behind or its memory runs out; an eighth of the most unless set",
			set:  func(c *Config, v string) error { return count(&c.Worker.MinSlots, v) },
			show: func(c Config) string { return strconv.Itoa(c.Worker.MinSlots) },
		},
	}
}

// workerDurations returns the settings of the worker that are durations, with the bounds of each. How they must fit each other is in
// relations.go.
func workerDurations() []Setting {
	const day = 24 * time.Hour
	field := func(name, def, doc string, in span, of func(*Worker) *time.Duration) Setting {
		return Setting{
			Name: name, Default: def, Doc: doc,
			set:  func(c *Config, v string) error { return in.read(of(&c.Worker), v) },
			show: func(c Config) string { return brief(*of(&c.Worker)) },
		}
	}
	return []Setting{
		field(horizon, "10s", "how far ahead of their due time endpoints are claimed",
			span{time.Second, time.Minute}, func(w *Worker) *time.Duration { return &w.Horizon }),
		field(pollInterval, "1s", "how often a worker looks for due endpoints",
			span{10 * time.Millisecond, time.Minute}, func(w *Worker) *time.Duration { return &w.PollInterval }),
		field(lockTTL, "60s", "the longest lock that is granted at once; longer runs extend it every third of this",
			span{6 * time.Second, 10 * time.Minute}, func(w *Worker) *time.Duration { return &w.LockTTL }),
		field(staleAfter, "90s", "how long a worker may be silent before it counts as gone",
			span{time.Second, time.Hour}, func(w *Worker) *time.Duration { return &w.StaleAfter }),
		field(settle, "180s", "how long the sweeper watches after an outage before silence counts",
			span{time.Second, 2 * time.Hour}, func(w *Worker) *time.Duration { return &w.Settle }),
		field(sweep, "10s", "how often the sweeper looks for what dead workers left",
			span{100 * time.Millisecond, 10 * time.Minute}, func(w *Worker) *time.Duration { return &w.SweepInterval }),
		field(Grace, "30s", "how long runs may go on after the first signal",
			span{0, time.Hour}, func(w *Worker) *time.Duration { return &w.ShutdownGrace }),
		field("RUBATO_RUN_RETENTION", "720h", "how long the history of runs is kept, with the decisions and hints that explain it; whole days are dropped",
			span{day, 3660 * day}, func(w *Worker) *time.Duration { return &w.RunRetention }),
		field("RUBATO_BODY_RETENTION", "168h", "how long captured answers are kept; whole days are dropped",
			span{day, 3660 * day}, func(w *Worker) *time.Duration { return &w.BodyRetention }),
		field("RUBATO_AUDIT_RETENTION", "8760h", "how long the audit log is kept",
			span{day, 36600 * day}, func(w *Worker) *time.Duration { return &w.AuditRetention }),
	}
}

// Row is one line of what is in force.
type Row struct {
	Name  string `json:"name"`
	Value string `json:"value"` // secrets redacted; empty: not set
	Doc   string `json:"doc"`
}

// Redacted returns every setting with the value in force and no secret.
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
		rows = append(rows, Row{Name: s.Name, Value: value, Doc: s.Doc})
	}
	return rows
}

// quote returns a value for an error message, or nothing where it is secret.
func (s Setting) quote(value string) string {
	if s.Secret {
		return ""
	}
	return fmt.Sprintf(" (it is %q)", value)
}

// hidden stands for what is not shown.
const hidden = "***"

// redact hides the secrets of a URL. It keeps what helps to tell databases apart: scheme, user, host and path, but no password and no
// parameter.
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
