package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rubato/api"
	"rubato/internal/waittest"
)

// operationCommand is a command that asks for an operation of the contract.
type operationCommand struct {
	args  string // separated by spaces
	stdin string
}

// reaches returns, for every operation of the contract, a command that reaches it.
func reaches() map[string]operationCommand {
	const (
		endpoint = "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
		run      = "run_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
		call     = "call_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
		letter   = "dl_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
		key      = "key_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
		object   = `{"name":"p","url":"https://p.example/","baselineIntervalMs":60000}`
	)
	return map[string]operationCommand{
		"sendCall":               {args: "calls send https://p.example/"},
		"listCalls":              {args: "calls list"},
		"getCall":                {args: "calls show " + call},
		"cancelCall":             {args: "calls cancel " + call},
		"reportRun":              {args: "runs report https://rubato.example.com/v1/callbacks/" + strings.Repeat("t", 96)},
		"putChain":               {args: "chains apply order -f -", stdin: `{"steps":[]}`},
		"listChains":             {args: "chains list"},
		"getChain":               {args: "chains get order"},
		"deleteChain":            {args: "chains delete order"},
		"runChain":               {args: "chains run order"},
		"listChainRuns":          {args: "chains runs order"},
		"getChainRun":            {args: "chains show chr_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"cancelChainRun":         {args: "chains cancel chr_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"discardDeadLetter":      {args: "dead-letters discard " + letter + " --reason why"},
		"getDeadLetter":          {args: "dead-letters get " + letter},
		"listDeadLetters":        {args: "dead-letters list"},
		"replayDeadLetter":       {args: "dead-letters replay " + letter},
		"replayDeadLetters":      {args: "dead-letters replay --all"},
		"createSigningKey":       {args: "signing-keys create"},
		"deleteBudget":           {args: "budgets delete label:team=shop"},
		"getHost":                {args: "hosts get api.example.com"},
		"listHosts":              {args: "hosts list"},
		"patchHost":              {args: "hosts set api.example.com --failures 3 --window 1m"},
		"resetHost":              {args: "hosts reset api.example.com"},
		"getBudget":              {args: "budgets get label:team=shop"},
		"listBudgets":            {args: "budgets list"},
		"putBudget":              {args: "budgets set label:team=shop 600/h"},
		"deleteSecret":           {args: "secrets delete payment"},
		"deleteSigningKey":       {args: "signing-keys delete sgk_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"getSecret":              {args: "secrets get payment"},
		"listSecrets":            {args: "secrets list"},
		"listSigningKeys":        {args: "signing-keys list"},
		"putSecret":              {args: "secrets set payment", stdin: "value"},
		"rerunRun":               {args: "runs rerun " + run},
		"archiveEndpoint":        {args: "endpoints delete --yes " + endpoint},
		"cancelRun":              {args: "runs cancel " + run},
		"clearHints":             {args: "hints clear " + endpoint},
		"createEndpoint":         {args: "endpoints create -f -", stdin: object},
		"createKey":              {args: "keys create --name k --scope read"},
		"explain":                {args: "explain --remote", stdin: object + "\n"},
		"explainEndpoint":        {args: "endpoints explain " + endpoint},
		"getEndpointVersion":     {args: "endpoints versions " + endpoint + " 3"},
		"listEndpointVersions":   {args: "endpoints versions " + endpoint},
		"exportEndpoints":        {args: "endpoints export"},
		"getContract":            {args: "server contract"},
		"getEndpoint":            {args: "endpoints get " + endpoint},
		"getEndpointHealth":      {args: "endpoints health " + endpoint},
		"listEndpointDecisions":  {args: "endpoints decisions " + endpoint},
		"getEndpointTempo":       {args: "endpoints tempo " + endpoint},
		"getEndpointRoutability": {args: "endpoints routability " + endpoint},
		"getEndpointShadow":      {args: "endpoints shadow " + endpoint},
		"getStats":               {args: "stats"},
		"drainWorker":            {args: "workers drain wk_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"resumeWorker":           {args: "workers resume wk_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"listWorkers":            {args: "workers"},
		"getHealth":              {args: "server status"},
		"getKey":                 {args: "keys get " + key},
		"getReadiness":           {args: "server status"},
		"getRun":                 {args: "runs get " + run},
		"importEndpoints":        {args: "endpoints import -f -", stdin: object + "\n"},
		"listAudit":              {args: "changes"},
		"listEndpointRuns":       {args: "runs list --endpoint " + endpoint},
		"listEndpoints":          {args: "endpoints list"},
		"listKeys":               {args: "keys list"},
		"listRunEvents":          {args: "runs events " + run},
		"listRuns":               {args: "runs list"},
		"patchEndpoint":          {args: "endpoints edit " + endpoint + " --set timeoutMs=5000"},
		"pauseEndpoint":          {args: "endpoints pause " + endpoint},
		"previewEndpoint":        {args: "endpoints preview " + endpoint},
		"putEndpointByKey":       {args: "endpoints put shop -f -", stdin: object},
		"putIntervalHint":        {args: "hints interval " + endpoint + " --every 10s --for 1h"},
		"putOneShotHint":         {args: "hints one-shot " + endpoint + " --in 1m --for 1h"},
		"listNoise":              {args: "endpoints noise " + endpoint},
		"judgeNoise":             {args: "endpoints noise " + endpoint + " --reject $.now"},
		"resetFailures":          {args: "endpoints reset-failures " + endpoint},
		"testEndpoint":           {args: "endpoints test " + endpoint},
		"testRequest":            {args: "test -f -", stdin: object},
		"resumeEndpoint":         {args: "endpoints resume " + endpoint},
		"revokeKey":              {args: "keys revoke " + key},
		"rotateKey":              {args: "keys rotate " + key},
		"runEndpoint":            {args: "endpoints run " + endpoint},
		"watchEvents":            {args: "runs watch"},

		"deleteMaintenanceWindow": {args: "notices close upgrade"},
		"deleteNoticeRule":        {args: "notices delete shop"},
		"getNoticeRule":           {args: "notices get shop"},
		"listMaintenanceWindows":  {args: "notices windows"},
		"listNoticeRules":         {args: "notices rules"},
		"listNotices":             {args: "notices list"},
		"putMaintenanceWindow":    {args: "notices window upgrade --for 2h"},
		"putNoticeRule":           {args: "notices set shop --failures 3 --channel slack --url-secret slack-url"},
		"retryNotice":             {args: "notices retry ntc_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"testNoticeRule":          {args: "notices test shop"},

		"approvePlannerSuggestion": {args: "planner approve sg_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"getPlannerBudget":         {args: "planner budget"},
		"getPlannerSession":        {args: "planner session ps_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"listPlannerSessions":      {args: "planner sessions"},
		"undoPlannerSession":       {args: "planner undo ps_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
		"listPlannerSuggestions":   {args: "planner suggestions"},
		"rejectPlannerSuggestion":  {args: "planner reject sg_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"},
	}
}

// operation is a route of the contract.
type operation struct {
	id, method string
	path       *regexp.Regexp
}

// operations reads the contract.
func operations(t *testing.T) []operation {
	t.Helper()
	var contract struct {
		Paths map[string]map[string]yaml.Node `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(api.OpenAPI()), &contract))
	placeholder := regexp.MustCompile(`\\\{[a-zA-Z]+\\\}`)
	var list []operation
	for path, item := range contract.Paths {
		pattern := regexp.MustCompile("^" + placeholder.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
		for method, node := range item {
			var op struct {
				OperationID string `yaml:"operationId"`
			}
			if node.Decode(&op) == nil && op.OperationID != "" {
				list = append(list, operation{id: op.OperationID, method: strings.ToUpper(method), path: pattern})
			}
		}
	}
	// A literal path wins over a pattern, as it does in the server.
	slices.SortFunc(list, func(a, b operation) int {
		return strings.Count(a.path.String(), "[^/]+") - strings.Count(b.path.String(), "[^/]+")
	})
	return list
}

// stub is a server that answers every request with a minimal object and records the request.
type stub struct {
	url   string
	known []operation

	mu    sync.Mutex
	asked map[string]string // operation to the body of its last request
	heard chan struct{}
}

func newStub(t *testing.T) *stub {
	t.Helper()
	s := &stub{known: operations(t), asked: map[string]string{}, heard: make(chan struct{}, 100)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	name := r.Method + " " + r.URL.Path
	for _, op := range s.known {
		if op.method == r.Method && op.path.MatchString(r.URL.Path) {
			name = op.id
			break
		}
	}
	s.mu.Lock()
	s.asked[name] = string(body)
	s.mu.Unlock()
	switch {
	case name == "watchEvents":
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		s.heard <- struct{}{}
		<-r.Context().Done()
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[],"decision":{"nextRunAt":"2026-01-01T00:00:00Z","steps":[]},"summary":{}}`)
	}
}

// TestEveryRouteIsReachable: a command exists for every operation of the contract.
func TestEveryRouteIsReachable(t *testing.T) {
	t.Parallel()
	table := reaches()
	for _, op := range operations(t) {
		r, found := table[op.id]
		require.True(t, found, "no command is named that reaches %s", op.id)
		delete(table, op.id)
		t.Run(op.id, func(t *testing.T) {
			t.Parallel()
			s := newStub(t)
			ctx, stop := context.WithCancel(waittest.Context(t))
			defer stop()
			// A command that watches runs until it is interrupted.
			go func() {
				select {
				case <-s.heard:
				case <-ctx.Done():
				}
				stop()
			}()
			var complaints bytes.Buffer
			command := &session{
				stdin: strings.NewReader(r.stdin), stdout: io.Discard, stderr: &complaints,
				environ: []string{"RUBATO_URL=" + s.url, "RUBATO_API_KEY=key-of-the-test"},
			}
			command.run(ctx, strings.Fields(r.args))
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Contains(t, s.asked, op.id, "rubato %s asked for %v: %s", r.args, s.asked, &complaints)
		})
	}
	require.Empty(t, table, "commands are named for operations that the contract does not have")
}

func TestEditSendsTheGivenFields(t *testing.T) {
	t.Parallel()
	patch := filepath.Join(t.TempDir(), "patch.json")
	require.NoError(t, os.WriteFile(patch, []byte(` {"key":null} `), 0o600))
	for name, tc := range map[string]struct {
		args []string
		body string
		code int
	}{
		"Fields": {[]string{"--set", "timeoutMs=5000", "--set", "name=a=b c", "--set", `labels={"x":"1"}`, "--set", "key=null"}, `{"key":null,"labels":{"x":"1"},"name":"a=b c","timeoutMs":5000}`, 0},
		"File":   {[]string{"-f", patch}, `{"key":null}`, 0},
		"None":   {nil, "", 2},
		"Both":   {[]string{"-f", patch, "--set", "a=1"}, "", 2},
		"Cron":   {[]string{"--cron", "0 3 * * *"}, `{"baselineCron":"0 3 * * *","baselineIntervalMs":null}`, 0},
		"Every":  {[]string{"--interval", "1m"}, `{"baselineCron":null,"baselineIntervalMs":60000}`, 0},
		"SetOne": {[]string{"--set", "baselineIntervalMs=60000"}, `{"baselineCron":null,"baselineIntervalMs":60000}`, 0},
		"Given":  {[]string{"--cron", "0 3 * * *", "--set", "baselineIntervalMs=null"}, `{"baselineCron":"0 3 * * *","baselineIntervalMs":null}`, 0},
		"Two":    {[]string{"--cron", "0 3 * * *", "--interval", "1m"}, `{"baselineCron":"0 3 * * *","baselineIntervalMs":60000}`, 0},
		"Clears": {[]string{"--set", "baselineCron=null"}, `{"baselineCron":null}`, 0},
		"NoCron": {[]string{"--cron", ""}, `{"baselineCron":""}`, 0},
		"NoSign": {[]string{"--set", "a"}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub(t)
			command := &session{
				stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
				environ: []string{"RUBATO_URL=" + s.url, "RUBATO_API_KEY=key-of-the-test"},
			}
			code := command.run(t.Context(), append([]string{"endpoints", "edit", "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"}, tc.args...))
			require.Equal(t, tc.code, code)
			require.Equal(t, tc.body, s.asked["patchEndpoint"])
		})
	}
}

// A length of time that makes no sense is for the server to refuse: left out, it would mean for
// ever.
func TestALengthOfTimeIsNeverLeftOut(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][2]string{
		"endpoints pause ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90 --for=-1h": {"pauseEndpoint", "forMs"},
		"endpoints pause ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90 --for 0s":  {"pauseEndpoint", "forMs"},
		"keys create --name k --scope admin --for=-1h":                      {"createKey", "expiresAt"},
		"keys create --name k --scope admin --for 0s":                       {"createKey", "expiresAt"},
	} {
		s := newStub(t)
		command := &session{
			stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
			environ: []string{"RUBATO_URL=" + s.url, "RUBATO_API_KEY=key-of-the-test"},
		}
		require.Zero(t, command.run(t.Context(), strings.Fields(args)), args)
		require.Contains(t, s.asked[want[0]], `"`+want[1]+`":`, args)
	}
}

// An unreadable file is an error of the command line that names the file.
func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	for _, args := range []string{
		"endpoints create -f none.json", "endpoints import -f none.json", "endpoints apply -f none.json", "notices set shop -f none.json", "test -f none.json",
		"secrets set shop --from-file none.json",
	} {
		var complaints bytes.Buffer
		command := &session{
			stdin: strings.NewReader(""), stdout: io.Discard, stderr: &complaints,
			environ: []string{"RUBATO_URL=" + s.url, "RUBATO_API_KEY=key-of-the-test"},
		}
		require.Equal(t, 2, command.run(t.Context(), strings.Fields(args)), args)
		require.Contains(t, complaints.String(), "open none.json", args)
		require.NotContains(t, complaints.String(), "reading the endpoint", args)
	}
}

// A folder may have any name, and other folders in it.
func TestEveryFileOfAFolderIsApplied(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "team [a]*?")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "old.yaml"), 0o700))
	for name, text := range map[string]string{"b.json": `{"key":"b"}`, "a.yaml": "key: a", "c.yml": "key: c", "notes.txt": "key: d"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	found, faults, err := new(session).readEndpoints(folder)
	require.NoError(t, err)
	require.Empty(t, faults)
	var keys []string
	for _, e := range found {
		keys = append(keys, e.key)
	}
	require.Equal(t, []string{"a", "b", "c"}, keys)
}

// A secret that is not valid UTF-8 is refused, because JSON would change it unnoticed.
func TestASecretThatIsNoTextIsNotSent(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var complaints bytes.Buffer
	command := &session{
		stdin: strings.NewReader("\x30\x82\xff\xfe"), stdout: io.Discard, stderr: &complaints,
		environ: []string{"RUBATO_URL=" + s.url, "RUBATO_API_KEY=key-of-the-test"},
	}
	require.Equal(t, 2, command.run(t.Context(), []string{"secrets", "set", "client-key"}))
	require.Contains(t, complaints.String(), "standard input is not UTF-8 text")
	require.Empty(t, s.asked)
}

// A flag that is given twice is refused, because its meaning would be ambiguous.
func TestRepeatedFlagsAreRefused(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	for _, args := range [][]string{
		{"endpoints", "create", "--name", "n", "--url", "https://a.example/", "--interval", "1m", "--label", "team=a", "--label", "team=b"},
		{"endpoints", "create", "--name", "n", "--url", "https://a.example/", "--interval", "1m", "--header", "X-One: 1", "--header", "X-One: 2"},
		{"endpoints", "edit", "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", "--set", "name=a", "--set", "name=b"},
		{"notices", "set", "r", "--event", "lost", "--channel", "slack", "--url-secret", "s", "--label", "team=a", "--label", "team=b"},
	} {
		var complaints bytes.Buffer
		command := &session{
			stdin: strings.NewReader(""), stdout: io.Discard, stderr: &complaints,
			environ: []string{"RUBATO_URL=" + s.url, "RUBATO_API_KEY=key-of-the-test"},
		}
		require.Equal(t, 2, command.run(t.Context(), args), args)
		require.Contains(t, complaints.String(), "is given twice", args)
	}
	require.Empty(t, s.asked)
}
