package config

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
)

func TestLoadFillsInEveryDefault(t *testing.T) {
	t.Parallel()

	got, err := Load(nil, Program{})

	require.NoError(t, err)
	want := Config{
		API:   API{Listen: ":8080", Rate: 500, Keys: 200, Waiting: 1000},
		Admin: Admin{Listen: "127.0.0.1:9090"},
		Egress: Egress{
			MaxPerHost: 100, LatencyLimits: true, Connect: 10 * time.Second, TLS: 10 * time.Second, Header: 30 * time.Second, Idle: 30 * time.Second,
		},
		Worker: Worker{
			Slots: 2048, MinSlots: 256, Horizon: 10 * time.Second, PollInterval: time.Second, LockTTL: time.Minute,
			StaleAfter: 90 * time.Second, Settle: 3 * time.Minute, SweepInterval: 10 * time.Second,
			ShutdownGrace: 30 * time.Second, RunRetention: 30 * 24 * time.Hour, BodyRetention: 7 * 24 * time.Hour, LetterRetention: 30 * 24 * time.Hour,
			AuditRetention: 365 * 24 * time.Hour,
		},
		Planner: Planner{
			Slots: 4, Poll: time.Second, Timeout: 30 * time.Second, Spacing: 30 * time.Second, Dwell: time.Minute, ChangesPerHour: 12,
			AnalysesPerHour: 12, Tokens: 5_000_000, TenantTokens: 1_000_000, EndpointTokens: 100_000,
		},
		Model: Model{SessionTokens: 5000, AnswerTokens: 500},
		Mail:  Mail{Security: "starttls"},
		Log:   Log{Level: slog.LevelInfo, Format: FormatAuto},
		Trace: Trace{Exporter: "otlp", Protocol: "http/protobuf", Sampler: "parentbased_always_on", SamplerArg: 1, Service: "rubato", MetricsExporter: "none"},
	}
	require.Empty(t, cmp.Diff(want, got))
}

func TestLoadReadsEveryName(t *testing.T) {
	t.Parallel()

	got, err := Load([]string{
		"DATABASE_URL=postgres://u:p@pooler/rubato",
		"RUBATO_DATABASE_DIRECT_URL=postgresql://u:p@db/rubato",
		"RUBATO_LISTEN=0.0.0.0:80",
		"RUBATO_ADMIN_LISTEN=:0",
		"RUBATO_BOOTSTRAP_API_KEY=first-key-of-all",
		"RUBATO_API_RATE=20",
		"RUBATO_KEYS_PER_TENANT=7",
		"RUBATO_WAITING_RUNS_PER_ENDPOINT=9",
		"RUBATO_CORS_ORIGINS=https://console.example.com, http://localhost:3000",
		"RUBATO_URL=https://rubato.example/",
		"RUBATO_API_KEY=key-of-the-client",
		"RUBATO_EGRESS_ALLOW=127.0.0.0/8, fd00::1/8",
		"RUBATO_EGRESS_ALLOW_HOSTS=db.corp.example, *.corp.example,10.0.0.7:9090,[fd00::1]:80",
		"RUBATO_EGRESS_PORTS=443, 8000-8999",
		"RUBATO_EGRESS_PROXY=http://u:p@proxy.example:3128",
		"RUBATO_EGRESS_MAX_PER_HOST=9",
		"RUBATO_EGRESS_SHARED_HOSTS=true", "RUBATO_EGRESS_LATENCY_LIMITS=false", "RUBATO_EGRESS_ALLOW_SKIP_VERIFY=true",
		"RUBATO_USER_AGENT_CONTACT=https://example.com/bot",
		"RUBATO_EGRESS_CONNECT_TIMEOUT=1s",
		"RUBATO_EGRESS_TLS_TIMEOUT=2s",
		"RUBATO_EGRESS_HEADER_TIMEOUT=3s",
		"RUBATO_EGRESS_IDLE_TIMEOUT=4s",
		"RUBATO_SLOTS=7",
		"RUBATO_SLOTS_MIN=3",
		"RUBATO_HORIZON=11s",
		"RUBATO_POLL_INTERVAL=500ms",
		"RUBATO_LOCK_TTL=61s",
		"RUBATO_STALE_AFTER=91s",
		"RUBATO_SETTLE=181s",
		"RUBATO_SWEEP_INTERVAL=12s",
		"RUBATO_SHUTDOWN_GRACE=31s",
		"RUBATO_RUN_RETENTION=30d1h",
		"RUBATO_BODY_RETENTION=169h",
		"RUBATO_PLANNER_SLOTS=5",
		"RUBATO_PLANNER_POLL=2s",
		"RUBATO_PLANNER_TIMEOUT=31s",
		"RUBATO_PLANNER_SPACING=32s",
		"RUBATO_PLANNER_DWELL=61s",
		"RUBATO_PLANNER_CHANGES_PER_HOUR=13",
		"RUBATO_PLANNER_ANALYSES_PER_HOUR=14",
		"RUBATO_PLANNER_TOKENS=3",
		"RUBATO_PLANNER_TENANT_TOKENS=2",
		"RUBATO_PLANNER_ENDPOINT_TOKENS=1",
		"RUBATO_LOG_LEVEL=WARN",
		"RUBATO_LOG_FORMAT=json",
		"RUBATO_TRUSTED_PROXIES=10.0.0.1/8, ::1/128",
		"RUBATO_PUBLIC_METRICS=true",
		"RUBATO_PUBLIC_URL=https://rubato.example.com/base/",
		"RUBATO_AUDIT_RETENTION=26h", "RUBATO_DEAD_LETTER_RETENTION=27h",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://u:p@traces.example/in",
		"RUBATO_SMTP_ADDRESS=mail.example.com:587",
		"RUBATO_SMTP_HELLO=rubato.example.com",
		"RUBATO_SMTP_FROM=Rubato <rubato@example.com>",
		"RUBATO_SMTP_USERNAME=u",
		"RUBATO_SMTP_TOKEN_URL=https://login.example/token",
		"RUBATO_SMTP_CLIENT_ID=id",
		"RUBATO_SMTP_CLIENT_SECRET=s",
		"RUBATO_SMTP_TOKEN_SCOPES=a, https://b.example/.default",
		"RUBATO_SMTP_SECURITY=tls",
		"RUBATO_SMTP_DOMAINS=Example.com, example.org",
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_TRACES_EXPORTER=none",
		"OTEL_METRICS_EXPORTER=otlp",
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=https://metrics.example/in",
		"OTEL_TRACES_SAMPLER=traceidratio",
		"OTEL_TRACES_SAMPLER_ARG=0.25",
		"OTEL_SERVICE_NAME=cron",
		"OTEL_SDK_DISABLED=TRUE",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=secret",
		"HOME=/nowhere",
	}, Program{Required: []string{DatabaseURL}})

	require.NoError(t, err)
	want := Config{
		Database: Database{URL: "postgres://u:p@pooler/rubato", DirectURL: "postgresql://u:p@db/rubato"},
		API: API{
			Listen: "0.0.0.0:80", BootstrapKey: "first-key-of-all", Rate: 20, Keys: 7, Waiting: 9,
			Origins: []string{"https://console.example.com", "http://localhost:3000"},
			Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}, Metrics: true,
			PublicURL: "https://rubato.example.com/base",
		},
		Admin:  Admin{Listen: ":0"},
		Client: Client{URL: "https://rubato.example", Key: "key-of-the-client"},
		Egress: Egress{
			Allow:      []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
			AllowHosts: []string{"db.corp.example", "*.corp.example", "10.0.0.7:9090", "[fd00::1]:80"},
			Ports:      []Ports{{443, 443}, {8000, 8999}},
			Proxy:      "http://u:p@proxy.example:3128",
			MaxPerHost: 9, SharedHosts: true, AllowSkipVerify: true, Contact: "https://example.com/bot",
			Connect: time.Second, TLS: 2 * time.Second, Header: 3 * time.Second, Idle: 4 * time.Second,
		},
		Worker: Worker{
			Slots: 7, MinSlots: 3, Horizon: 11 * time.Second, PollInterval: 500 * time.Millisecond, LockTTL: 61 * time.Second,
			StaleAfter: 91 * time.Second, Settle: 181 * time.Second, SweepInterval: 12 * time.Second,
			ShutdownGrace: 31 * time.Second, RunRetention: 721 * time.Hour, BodyRetention: 169 * time.Hour, AuditRetention: 26 * time.Hour, LetterRetention: 27 * time.Hour,
		},
		Planner: Planner{
			Slots: 5, Poll: 2 * time.Second, Timeout: 31 * time.Second, Spacing: 32 * time.Second, Dwell: 61 * time.Second, ChangesPerHour: 13,
			AnalysesPerHour: 14, Tokens: 3, TenantTokens: 2, EndpointTokens: 1,
		},
		Model: Model{SessionTokens: 5000, AnswerTokens: 500},
		Mail: Mail{
			Address: "mail.example.com:587", Hello: "rubato.example.com", From: "Rubato <rubato@example.com>", Username: "u", Security: "tls",
			Domains: []string{"example.com", "example.org"},
			Token:   MailToken{URL: "https://login.example/token", ClientID: "id", ClientSecret: "s", Scopes: []string{"a", "https://b.example/.default"}},
		},
		Log: Log{Level: slog.LevelWarn, Format: FormatJSON},
		Trace: Trace{
			Off: true, Exporter: "none", Endpoint: "http://collector:4318", TracesEndpoint: "https://u:p@traces.example/in",
			Protocol: "http/protobuf", Sampler: "traceidratio", SamplerArg: 0.25, Service: "cron",
			MetricsExporter: "otlp", MetricsEndpoint: "https://metrics.example/in",
		},
	}
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})))
}

func TestDirectURLIsTheDatabaseURLUnlessSet(t *testing.T) {
	t.Parallel()

	got, err := Load([]string{"DATABASE_URL=postgres://db/rubato"}, Program{})

	require.NoError(t, err)
	require.Equal(t, "postgres://db/rubato", got.Database.DirectURL)
}

func TestProgramDefaultsReplaceTheCommonOnes(t *testing.T) {
	t.Parallel()
	dev := Program{Defaults: map[string]string{Listen: "127.0.0.1:8080", AdminListen: ""}}

	silent, err := Load(nil, dev)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", silent.API.Listen)
	require.Empty(t, silent.Admin.Listen)

	spoken, err := Load([]string{"RUBATO_LISTEN=:1", "RUBATO_ADMIN_LISTEN=:2"}, dev)
	require.NoError(t, err)
	require.Equal(t, ":1", spoken.API.Listen)
	require.Equal(t, ":2", spoken.Admin.Listen)
}

func TestAnEmptyValueCountsAsNotSet(t *testing.T) {
	t.Parallel()

	got, err := Load([]string{"RUBATO_LISTEN=", "RUBATO_SLOTS="}, Program{})
	require.NoError(t, err)
	require.Equal(t, ":8080", got.API.Listen)

	_, err = Load([]string{"DATABASE_URL="}, Program{Required: []string{DatabaseURL}})
	require.ErrorContains(t, err, "DATABASE_URL is not set: Postgres")
}

func TestLoadErrorNamesTheSettingAndTheRightForm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		environ []string
		want    string
	}{
		"Proxies":                {[]string{"RUBATO_TRUSTED_PROXIES=10.0.0.1"}, "RUBATO_TRUSTED_PROXIES: must be prefixes"},
		"PublicURL":              {[]string{"RUBATO_PUBLIC_URL=https://u:p@rubato.example.com"}, "RUBATO_PUBLIC_URL: must be a URL without a user"},
		"PublicURLWithoutScheme": {[]string{"RUBATO_PUBLIC_URL=rubato.example.com"}, "RUBATO_PUBLIC_URL: must be a URL without a user"},
		"PublicMetrics":          {[]string{"RUBATO_PUBLIC_METRICS=yes"}, "RUBATO_PUBLIC_METRICS: must be true or false"},
		"AuditRetention":         {[]string{"RUBATO_AUDIT_RETENTION=1h"}, "RUBATO_AUDIT_RETENTION: must be a duration from 24h"},
		"Collector":              {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL such as http://collector:4318"},
		"Exporter":               {[]string{"OTEL_TRACES_EXPORTER=console"}, "OTEL_TRACES_EXPORTER: must be one of otlp, none"},
		"Sampler":                {[]string{"OTEL_TRACES_SAMPLER=sometimes"}, "OTEL_TRACES_SAMPLER: must be one of parentbased_always_on,"},
		"SamplerArg":             {[]string{"OTEL_TRACES_SAMPLER_ARG=NaN"}, "OTEL_TRACES_SAMPLER_ARG: must be a number from 0 to 1"},
		"CollectorUser":          {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:hunter2@c:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT: must have no user, password or parameters"},
		"CollectorParameter":     {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://u@c:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://t/in?key=hunter2"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must have no user, password or parameters"},
		"Protocol":               {[]string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317"}, "must be http/protobuf (it is \"grpc\")"},
		"UnknownName":            {[]string{"RUBATO_FOO=1"}, "\n  - RUBATO_FOO is not a setting"},
		"MistypedName":           {[]string{"RUBATO_HORIZN=5s"}, "RUBATO_HORIZN is not a setting; did you mean RUBATO_HORIZON?"},
		"NameWithAPrefixTooMany": {[]string{"RUBATO_DATABASE_URL=x"}, "RUBATO_DATABASE_URL is not a setting; did you mean DATABASE_URL?"},
		"UnknownNameWithNoValue": {[]string{"RUBATO_LOCKTTL="}, "RUBATO_LOCKTTL is not a setting; did you mean RUBATO_LOCK_TTL?"},
		"DurationWithoutUnit":    {[]string{"RUBATO_HORIZON=10"}, `RUBATO_HORIZON: must be a duration from 1s to 1m, such as 1s (it is "10")`},
		"DurationOutOfBounds":    {[]string{"RUBATO_RUN_RETENTION=1h"}, `RUBATO_RUN_RETENTION: must be a duration from 24h to 87840h, such as 24h (it is "1h")`},
		"NegativeDuration":       {[]string{"RUBATO_SHUTDOWN_GRACE=-1s"}, "RUBATO_SHUTDOWN_GRACE: must be a duration from 0s"},
		"NoSlots":                {[]string{"RUBATO_SLOTS=0"}, `RUBATO_SLOTS: must be a whole number from 1 to 10000 (it is "0")`},
		"MoreSlotsThanThereAre":  {[]string{"RUBATO_SLOTS=9", "RUBATO_SLOTS_MIN=10"}, "RUBATO_SLOTS_MIN (10) must be at most RUBATO_SLOTS (9)"},
		"SlotsInWords":           {[]string{"RUBATO_SLOTS=many"}, "RUBATO_SLOTS: must be a whole number"},
		"PortAlone":              {[]string{"RUBATO_LISTEN=8080"}, "RUBATO_LISTEN: must be host:port"},
		"PortTooLarge":           {[]string{"RUBATO_ADMIN_LISTEN=:70000"}, "RUBATO_ADMIN_LISTEN: must be host:port"},
		"HostWithScheme":         {[]string{"RUBATO_EGRESS_ALLOW_HOSTS=http://a"}, "RUBATO_EGRESS_ALLOW_HOSTS: must be hosts"},
		"HostStarInside":         {[]string{"RUBATO_EGRESS_ALLOW_HOSTS=a.*.b"}, "RUBATO_EGRESS_ALLOW_HOSTS: must be hosts"},
		"PortZero":               {[]string{"RUBATO_EGRESS_PORTS=0"}, "RUBATO_EGRESS_PORTS: must be ports"},
		"PortsBackwards":         {[]string{"RUBATO_EGRESS_PORTS=90-80"}, "RUBATO_EGRESS_PORTS: must be ports"},
		"ProxySocks":             {[]string{"RUBATO_EGRESS_PROXY=socks5://user:hunter2@p:1"}, "RUBATO_EGRESS_PROXY: must be a URL such as"},
		"NoPlacePerHost":         {[]string{"RUBATO_EGRESS_MAX_PER_HOST=0"}, "RUBATO_EGRESS_MAX_PER_HOST: must be a whole number"},
		"SharedHostsYes":         {[]string{"RUBATO_EGRESS_SHARED_HOSTS=yes"}, "RUBATO_EGRESS_SHARED_HOSTS: must be true or false"},
		"SkipVerifyYes":          {[]string{"RUBATO_EGRESS_ALLOW_SKIP_VERIFY=yes"}, "RUBATO_EGRESS_ALLOW_SKIP_VERIFY: must be true or false"},
		"ContactWithBreak":       {[]string{"RUBATO_USER_AGENT_CONTACT=a b"}, "RUBATO_USER_AGENT_CONTACT: must be a URL or a mail address"},
		"IdleForEver":            {[]string{"RUBATO_EGRESS_IDLE_TIMEOUT=1h"}, "RUBATO_EGRESS_IDLE_TIMEOUT: must be a duration"},
		"AddressForPrefix":       {[]string{"RUBATO_EGRESS_ALLOW=10.0.0.1"}, "RUBATO_EGRESS_ALLOW: must be prefixes"},
		"ServerWithUser":         {[]string{"RUBATO_URL=http://u:hunter2@127.0.0.1:8080"}, "RUBATO_URL: must have no user, password or parameters, which would not be sent: put the API key into RUBATO_API_KEY"},
		"ServerWithoutScheme":    {[]string{"RUBATO_URL=localhost:8080"}, "RUBATO_URL: must be a URL such as http://127.0.0.1:8080"},
		"LevelUnknown":           {[]string{"RUBATO_LOG_LEVEL=loud"}, `RUBATO_LOG_LEVEL: must be debug, info, warn or error (it is "loud")`},
		"FormatUnknown":          {[]string{"RUBATO_LOG_FORMAT=xml"}, "RUBATO_LOG_FORMAT: must be auto, text or json"},
		"PollBeyondHorizon":      {[]string{"RUBATO_POLL_INTERVAL=11s"}, "RUBATO_POLL_INTERVAL (11s) must be at most RUBATO_HORIZON (10s), otherwise"},
		"HorizonAsLongAsLock":    {[]string{"RUBATO_HORIZON=60s"}, "RUBATO_HORIZON (1m) must be less than RUBATO_LOCK_TTL (1m), otherwise"},
		"LockAsLongAsStale":      {[]string{"RUBATO_LOCK_TTL=90s"}, "RUBATO_LOCK_TTL (1m30s) must be less than RUBATO_STALE_AFTER (1m30s), otherwise"},
		"StaleAsLongAsSettle":    {[]string{"RUBATO_STALE_AFTER=180s"}, "RUBATO_STALE_AFTER (3m) must be less than RUBATO_SETTLE (3m), otherwise"},
		"SweepHalfOfSettle":      {[]string{"RUBATO_SWEEP_INTERVAL=90s"}, "RUBATO_SWEEP_INTERVAL (1m30s) must be less than half of RUBATO_SETTLE (3m), otherwise"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(tc.environ, Program{})
			require.ErrorContains(t, err, tc.want)
			problems, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.Len(t, problems.Problems, 1, "one mistake is one problem")
			require.Equal(t, strings.Contains(tc.want, "did you mean"), strings.Contains(err.Error(), "did you mean"))
		})
	}
}

func TestPollIntervalMayEqualTheHorizon(t *testing.T) {
	t.Parallel()
	_, err := Load([]string{"RUBATO_POLL_INTERVAL=10s"}, Program{})
	require.NoError(t, err)
}

func TestOneErrorListsEveryProblem(t *testing.T) {
	t.Parallel()

	_, err := Load([]string{
		"RUBATO_ZZZ_UNHEARD_OF=1", "RUBATO_SLOT=1", "RUBATO_LISTEN=x", "RUBATO_LOCK_TTL=forever",
		"RUBATO_SETTLE=80s",
	}, Program{Required: []string{DatabaseURL}})

	problems, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	want := []string{
		"RUBATO_SLOT is not a setting; did you mean RUBATO_SLOTS?",
		"RUBATO_ZZZ_UNHEARD_OF is not a setting",
		"DATABASE_URL is not set: Postgres 15 or later, as a postgres:// URL",
		`RUBATO_LISTEN: must be host:port, such as 127.0.0.1:8080 or :8080 (it is "x")`,
		`RUBATO_LOCK_TTL: must be a duration from 6s to 10m, such as 6s (it is "forever")`,
		"RUBATO_STALE_AFTER (1m30s) must be less than RUBATO_SETTLE (1m20s), otherwise a database outage looks like the death of all workers",
	}
	require.Empty(t, cmp.Diff(want, problems.Problems), "and nothing about the lock, which could not be read")
	require.Equal(t, "the configuration is not valid:\n  - "+strings.Join(want, "\n  - "), err.Error())
}

func TestNoErrorShowsASecret(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{
		"DATABASE_URL=mysql://u:hunter2@db/x", "RUBATO_DATABASE_DIRECT_URL=hunter2",
		"RUBATO_API_KEY=hunter2", "RUBATO_BOOTSTRAP_API_KEY=hunter2 hunter2",
		"RUBATO_URL=http://u:hunter2@127.0.0.1:8080", "RUBATO_URL=ftp://u:hunter2@127.0.0.1", "RUBATO_URL=http://u:hunter2@127.0.0.1:zz",
	} {
		_, err := Load([]string{pair}, Program{})
		name, _, _ := strings.Cut(pair, "=")
		require.ErrorContains(t, err, name+": must ")
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestRedactedHidesSecretsAndShowsTheRest(t *testing.T) {
	t.Parallel()
	cfg, err := Load([]string{
		"DATABASE_URL=postgres://worker:hunter2@db:5432/rubato?sslpassword=hunter3",
		"RUBATO_BOOTSTRAP_API_KEY=hunter4hunter4", "RUBATO_EGRESS_ALLOW=10.0.0.0/8,fd00::/8",
	}, Program{})
	require.NoError(t, err)

	got := map[string]string{}
	for _, row := range cfg.Redacted() {
		got[row.Name] = row.Value
		require.NotContains(t, row.Value, "hunter")
	}

	require.Len(t, got, len(Settings()))
	require.Equal(t, "postgres://worker:***@db:5432/rubato", got["DATABASE_URL"])
	require.Equal(t, "postgres://worker:***@db:5432/rubato", got["RUBATO_DATABASE_DIRECT_URL"])
	require.Equal(t, "***", got["RUBATO_BOOTSTRAP_API_KEY"])
	require.Empty(t, got["RUBATO_API_KEY"])
	require.Equal(t, "10.0.0.0/8,fd00::/8", got["RUBATO_EGRESS_ALLOW"])
	require.Equal(t, "720h", got["RUBATO_RUN_RETENTION"])
	require.Equal(t, "1m", got["RUBATO_LOCK_TTL"])
	require.Equal(t, "info", got["RUBATO_LOG_LEVEL"])
}

// TestSecretThatResemblesAURLIsFullyRedacted has secrets that contain a colon and a slash.
func TestSecretThatResemblesAURLIsFullyRedacted(t *testing.T) {
	t.Parallel()
	cfg, err := Load([]string{
		"RUBATO_API_KEY=key:/hunter22", "RUBATO_BOOTSTRAP_API_KEY=http://hunter22", "RUBATO_OPENAI_API_KEY=sk:/hunter22", "RUBATO_PLANNER_MODEL=m",
		"RUBATO_SMTP_ADDRESS=mail.example:25", "RUBATO_SMTP_FROM=a@mail.example", "RUBATO_SMTP_USERNAME=u", "RUBATO_SMTP_PASSWORD=a://hunter2",
	}, Program{})
	require.NoError(t, err)
	for _, row := range cfg.Redacted() {
		require.NotContains(t, row.Value, "hunter", row.Name)
	}
}

// Shown values can be set again: the environment accepts every value that `rubato config` prints.
func TestEveryShownValueCanBeSet(t *testing.T) {
	t.Parallel()
	cfg, err := Load(nil, Program{})
	require.NoError(t, err)

	var environ []string
	for _, row := range cfg.Redacted() {
		environ = append(environ, row.Name+"="+row.Value)
	}
	again, err := Load(environ, Program{})

	require.NoError(t, err)
	require.Empty(t, cmp.Diff(cfg, again))
}

func TestMetricsArePushedOnlyIfEnabled(t *testing.T) {
	t.Parallel()
	const collector, asked = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/", "OTEL_METRICS_EXPORTER=otlp"
	for name, tc := range map[string]struct {
		environ []string
		url     string // empty: none are sent
	}{
		"CollectorOfTraces": {[]string{collector}, ""},
		"AskedFor":          {[]string{collector, asked}, "http://c:4318/v1/metrics"},
		"Nowhere":           {[]string{asked}, ""},
		"MetricsAlone":      {[]string{asked, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://m/in"}, "http://m/in"},
		"MetricsWin":        {[]string{collector, asked, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://m/in"}, "http://m/in"},
		"Disabled":          {[]string{collector, asked, "OTEL_SDK_DISABLED=true"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(tc.environ, Program{})
			require.NoError(t, err)
			require.Equal(t, tc.url != "", cfg.Trace.MetricsOn())
			if tc.url != "" {
				require.Equal(t, tc.url, cfg.Trace.MetricsURL())
			}
		})
	}
	_, err := Load([]string{asked, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://u:hunter2@m/in", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, Program{})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: must have no user")
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf")
	require.NotContains(t, err.Error(), "hunter2")
}

func TestTracingIsOffWithoutACollector(t *testing.T) {
	t.Parallel()
	const collector = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/"
	for name, tc := range map[string]struct {
		environ []string
		url     string // empty: none are made
	}{
		"Silence":       {nil, ""},
		"Collector":     {[]string{collector}, "http://c:4318/v1/traces"},
		"TracesAlone":   {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/in"}, "http://t/in"},
		"TracesWin":     {[]string{collector, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/in"}, "http://t/in"},
		"None":          {[]string{collector, "OTEL_TRACES_EXPORTER=none"}, ""},
		"Disabled":      {[]string{collector, "OTEL_SDK_DISABLED=true"}, ""},
		"GRPCElsewhere": {[]string{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(tc.environ, Program{})
			require.NoError(t, err)
			require.Equal(t, tc.url != "", cfg.Trace.On())
			if tc.url != "" {
				require.Equal(t, tc.url, cfg.Trace.URL())
			}
		})
	}
}
