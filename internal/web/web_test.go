package web

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/stats"
)

func TestAssetsAreSmallAndWhole(t *testing.T) {
	t.Parallel()
	size := 0
	for route, a := range assets() {
		size += a.Size()
		path := strings.TrimPrefix(route, "GET ")
		plain := httptest.NewRecorder()
		a.ServeHTTP(plain, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, plain.Code, path)
		require.Empty(t, plain.Header().Get("Content-Encoding"), path)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", "gzip, br")
		packed := httptest.NewRecorder()
		a.ServeHTTP(packed, r)
		if packed.Header().Get("Content-Encoding") != "" {
			require.Equal(t, "gzip", packed.Header().Get("Content-Encoding"), path)
			text, err := gzip.NewReader(packed.Body)
			require.NoError(t, err)
			unpacked, err := io.ReadAll(text)
			require.NoError(t, err)
			require.Equal(t, plain.Body.Bytes(), unpacked, path)
		}
		r.Header.Set("If-None-Match", plain.Header().Get("Etag"))
		again := httptest.NewRecorder()
		a.ServeHTTP(again, r)
		require.Equal(t, http.StatusNotModified, again.Code, path)
	}
	require.Less(t, size, 250_000, "the console stays small")
	for file, version := range map[string]string{"htmx.js": HtmxVersion, "uplot.js": "uPlot", "pico.css": PicoVersion} {
		plain := httptest.NewRecorder()
		assets()["GET /console/assets/"+file].ServeHTTP(plain, httptest.NewRequest(http.MethodGet, "/", nil))
		require.Contains(t, plain.Body.String(), version, file)
	}
	for _, license := range []string{"LICENSE.htmx", "LICENSE.uplot", "LICENSE.pico"} {
		require.Positive(t, assets()["GET /console/assets/"+license].Size(), license)
	}
}

func TestLengthsAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"90": 90_000, "1 h 30 min": 5_400_000, "500ms": 500, "2d": 172_800_000, "0": 0,
	} {
		got, err := parseLength(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "soon", "-5s", "5 apples", "0.5ms"} {
		_, err := parseLength(text)
		require.Error(t, err, text)
	}
	for _, ms := range []int64{1, 999, 1000, 1500, 60_000, 90_000, 3_600_000, 5_400_000, 86_400_000} {
		got, err := parseLength(lengthField(ms))
		require.NoError(t, err)
		require.Equal(t, ms, got, "what fields are filled with reads back")
	}
}

func TestWordsOfNumbersAndTimes(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", 5 * time.Microsecond: "< 1 ms", 12 * time.Millisecond: "12 ms", 1500 * time.Millisecond: "1.5 s", 9 * time.Second: "9 s",
		61 * time.Second: "1 min 1 s", time.Hour: "1 h", 25 * time.Hour: "1 d 1 h", -time.Minute: "−1 min",
	} {
		require.Equal(t, want, duration(d))
	}
	require.Equal(t, "1\u202f234\u202f567", count(1_234_567))
	require.Equal(t, "999", count(999))
	require.Equal(t, "99.9 %", percent(99_999, 100_000), "what is not all is not called all")
	require.Equal(t, "100 %", percent(5, 5))
	require.Equal(t, "–", percent(0, 0))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "in 1 min", relative(now.Add(time.Minute), now))
	require.Equal(t, "5 s ago", relative(now.Add(-5*time.Second), now))
	require.Equal(t, "Sun 22 Nov 00:00:00", clock(now.Add(12*time.Hour), now))
}

func TestAnEditSendsChangedFields(t *testing.T) {
	t.Parallel()
	before := map[string]any{"name": "a", "url": "u", "headers": map[string]any{"A": "1", "B": "***"}, "baselineCron": "* * * * *", "retry": map[string]any{"maxAttempts": 1.0}}
	after := map[string]any{"name": "b", "url": "u", "headers": map[string]any{"B": "***", "C": "3"}, "baselineIntervalMs": 1000.0, "retry": map[string]any{"maxAttempts": 1.0}}
	require.Equal(t, map[string]any{
		"name": "b", "headers": map[string]any{"A": nil, "C": "3"}, "baselineCron": nil, "baselineIntervalMs": 1000.0,
	}, difference(before, after), "masked headers that nobody touched are not sent")
	require.Empty(t, difference(before, before))
}

// The form of an endpoint describes exactly that endpoint: saving it untouched changes nothing.
func TestAFormReadsBackAsItWasFilled(t *testing.T) {
	t.Parallel()
	e := client.Endpoint{
		Name: "n", URL: "https://x.example/", Method: "POST", Headers: map[string]string{"A": "b: c"}, Labels: map[string]string{"team": "shop", "a:b": "c: d"}, Body: new(" {}\n"),
		BaselineCron: new("0 9 * * *"), Timezone: "Europe/Berlin", DST: client.DST{Gap: "skip", Overlap: "both"}, CatchUp: "all", Overlap: "queue", MinIntervalMs: new(int64(1500)),
		TimeoutMs: 1234, MaxExecutionTimeMs: 60_000, MaxResponseKb: 7, FollowRedirects: 2, Success: "2xx", Retry: client.Retry{MaxAttempts: 3, BackoffMs: 10, MaxBackoffMs: 2000},
		Idempotent: true, Planner: "off", Query: &map[string]string{"q": "1", "at": "{{run.id}}", "x=y": "="}, Sign: true, Conditional: true, ResponseTailKb: 3,
		Auth: &client.Auth{Type: "oauth2", TokenURL: new("https://login.example/"), ClientID: new("me"), ClientSecret: new(`{{secret "x"}}`), Scopes: &[]string{"a", "b:c"}},
		TLS:  &client.TLS{ServerName: new("x.example"), MinVersion: new(client.TLSVersion("1.3")), SkipVerify: new(true), CaCertificates: new("-----BEGIN\nx\n-----END")},
		SuccessRules: &[]client.SuccessRule{
			{Type: "json", JSONPath: new("$.n"), Op: new(client.SuccessRuleOp("less")), Value: 5.0},
			{Type: "json", JSONPath: new("$.s"), Value: "5"},
			{Type: "json", JSONPath: new("$.b"), Value: true},
			{Type: "header", Header: new("X-Ok"), Op: new(client.SuccessRuleOp("exists"))},
			{Type: "body", Op: new(client.SuccessRuleOp("matches")), Value: "^ok$"},
			{Type: "body", Value: " two words "},
			{Type: "cel", Expression: new("status == 200")},
			{Type: "latency", MaxLatencyMs: new(int64(1500))},
		},
		Redact:  &[]client.RedactRule{{Header: new("X-Me")}, {JSONPath: new("$..token")}, {Pattern: new("[0-9]+"), Replacement: new("#")}, {Pattern: new("key: "), Replacement: new(" ")}},
		StartAt: new(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	f := newForm(fieldsOf(e))
	d := f.document()
	require.Empty(t, f.errors)
	require.Equal(t, map[string]any{
		"name": "n", "url": "https://x.example/", "method": "POST", "headers": map[string]any{"A": "b: c"}, "labels": map[string]any{"team": "shop", "a:b": "c: d"}, "body": " {}\n",
		"baselineCron": "0 9 * * *", "timezone": "Europe/Berlin", "dst": map[string]any{"gap": "skip", "overlap": "both"}, "catchUp": "all", "overlap": "queue", "minIntervalMs": 1500.0,
		"timeoutMs": 1234.0, "maxExecutionTimeMs": 60_000.0, "maxResponseKb": 7.0, "followRedirects": 2.0, "success": "2xx",
		"retry": map[string]any{"maxAttempts": 3.0, "backoffMs": 10.0, "maxBackoffMs": 2000.0}, "idempotent": true, "planner": "off",
		"query": map[string]any{"q": "1", "at": "{{run.id}}", "x=y": "="}, "sign": true, "followNext": false, "conditional": true, "breaker": false, "responseTailKb": 3.0, "startAt": "2027-01-02T03:04:05Z",
		"auth": map[string]any{"type": "oauth2", "tokenUrl": "https://login.example/", "clientId": "me", "clientSecret": `{{secret "x"}}`, "scopes": []any{"a", "b:c"}},
		"tls":  map[string]any{"serverName": "x.example", "minVersion": "1.3", "skipVerify": true, "caCertificates": "-----BEGIN\nx\n-----END"},
		"successRules": []any{
			map[string]any{"type": "json", "jsonPath": "$.n", "op": "less", "value": 5.0},
			map[string]any{"type": "json", "jsonPath": "$.s", "value": "5"},
			map[string]any{"type": "json", "jsonPath": "$.b", "value": true},
			map[string]any{"type": "header", "header": "X-Ok", "op": "exists"},
			map[string]any{"type": "body", "op": "matches", "value": "^ok$"},
			map[string]any{"type": "body", "value": " two words "},
			map[string]any{"type": "cel", "expression": "status == 200"},
			map[string]any{"type": "latency", "maxLatencyMs": 1500.0},
		},
		"redact": []any{map[string]any{"header": "X-Me"}, map[string]any{"jsonPath": "$..token"}, map[string]any{"pattern": "[0-9]+", "replacement": "#"}, map[string]any{"pattern": "key: ", "replacement": " "}},
	}, d)
}

// Browsers send line ends as CRLF, and HTML leaves out the line break that a field of several lines
// begins with.
func TestTextsOfSeveralLinesSurviveAnEdit(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"one\ntwo", "one\r\ntwo"} {
		before := newForm(fieldsOf(client.Endpoint{Description: &stored}))
		sent := newForm(map[string]string{"description": "one\r\ntwo"})
		require.Equal(t, before.document()["description"], sent.document()["description"], "%q", stored)
	}
	var page strings.Builder
	require.NoError(t, area(newForm(map[string]string{"body": "\n{}"}), "body", "Body", "", 3).Render(t.Context(), &page))
	require.Contains(t, page.String(), ">\n\n{}</textarea>")
}

// A parameter of a query may hold what no line can: it stands there as JSON.
func TestParametersOfAQueryKeepTheirValues(t *testing.T) {
	t.Parallel()
	for stored, line := range map[string]string{
		"one": "one", "": "", `"one"`: `"one"`, `say "two words"`: `say "two words"`, `"a b`: `"a b`, `C:\new`: `C:\new`, "null": "null", "5": "5",
		"SELECT 1\nFROM x<y&z": `"SELECT 1\nFROM x<y&z"`, " padded": `" padded"`, "a\r\nb": `"a\r\nb"`,
		`"a\nb"`: `"\"a\\nb\""`, `" x "`: `"\" x \""`,
	} {
		e := client.Endpoint{Query: &map[string]string{"q": stored, "page": "1"}}
		f := newForm(fieldsOf(e))
		require.Equal(t, "page=1\nq="+line, f.fields["query"], "%q", stored)
		require.Equal(t, map[string]any{"q": stored, "page": "1"}, f.document()["query"], "%q", stored)
		require.Empty(t, f.errors)
	}
}

func TestALabelOfARuleIsNotWrittenTwice(t *testing.T) {
	t.Parallel()
	typed := func(labels string) (map[string]any, *client.Problem) {
		v := &pageRequest{r: httptest.NewRequest(http.MethodPost, "/", strings.NewReader(url.Values{"labels": {labels}}.Encode()))}
		v.r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		to := map[string]any{}
		return to, v.scopeTyped(to)
	}
	_, problem := typed("team=a\r\nteam=b")
	require.NotNil(t, problem)
	require.Contains(t, (*problem.Errors)[0].Message, "team")
	to, problem := typed("team=a\r\n\r\ntier = b\r\nr\\=w=x")
	require.Nil(t, problem)
	require.Equal(t, map[string]any{"labels": map[string]string{"team": "a", "tier": "b", "r=w": "x"}}, to)
}

// A label is written team=shop on every page, as on the command line. The API has a colon there,
// and links of older pages had.
func TestLabelsAreSearchedAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string][]string{
		"team=shop": {"team:shop"}, "team:shop": {"team:shop"}, "team=shop, tier=a:b": {"team:shop", "tier:a:b"}, `a:b=c`: {`a\:b:c`}, `a\=b=c`: {"a=b:c"},
		`"team=north west"`: {"team:north west"}, "team": {"team:"},
	} {
		v := &pageRequest{r: httptest.NewRequest(http.MethodGet, "/console/endpoints?"+url.Values{"label": {typed}}.Encode(), http.NoBody)}
		s := v.searched()
		require.Equal(t, want, s.query()["label"], typed)
		v.r = httptest.NewRequest(http.MethodGet, s.link(""), http.NoBody)
		require.Equal(t, s, v.searched(), "the link finds the same")
	}
	require.Equal(t, "team=shop, tier=a", scopeWords(nil, &map[string]string{"tier": "a", "team": "shop"}))
	require.Equal(t, `a\=b=c`, newForm(fieldsOf(client.Endpoint{Labels: map[string]string{"a=b": "c"}})).fields["labels"])
}

func TestRulesKeepTheirLabels(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a:b=c\nr\\=w=x\nteam=shop=one", labelLines(&map[string]string{"team": "shop=one", "a:b": "c", "r=w": "x"}))
	require.Empty(t, labelLines(nil))
}

func TestTempoChartShowsTheDecidingRule(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	run := func(start, next time.Duration, status client.RunStatus, source client.Source) client.Run {
		return client.Run{StartedAt: new(at.Add(start)), FinishedAt: new(at.Add(start)), Status: status, Decision: &client.Decision{NextRunAt: new(at.Add(next)), Source: source}}
	}
	runs := []client.Run{ // Newest first.
		run(90*time.Second, 100*time.Second, client.RunStatusSucceeded, client.SourceAiInterval),
		run(60*time.Second, 90*time.Second, client.RunStatusSucceeded, client.SourceClampedMax),
		run(0, 40*time.Second, client.RunStatusFailed, client.SourceBaselineInterval),
	}
	chart := chartOf(client.Endpoint{BaselineIntervalMs: new(int64(20_000)), MaxIntervalMs: new(int64(30_000))}, runs, stats.History{
		At: at.Add(2 * time.Minute),
		Changes: []stats.Change{
			{At: at.Add(50 * time.Second), Cause: "resume", NextRunAt: at.Add(60 * time.Second)},
			{At: at.Add(30 * time.Second), Cause: "pause", NextRunAt: at.Add(time.Hour), PausedUntil: at.Add(time.Hour)},
		},
		Hints: []stats.Hint{{Kind: "interval", CreatedAt: at.Add(80 * time.Second), EndedAt: at.Add(time.Hour)}},
	})
	require.Equal(t, []*float64{new(40.0), nil, new(60.0), new(30.0), new(10.0)}, chart.Interval)
	require.Equal(t, []*float64{new(40.0), nil, nil, nil, nil}, chart.Backoff)
	require.Equal(t, []*float64{nil, nil, nil, new(30.0), nil}, chart.Clamped)
	require.Equal(t, []*float64{nil, nil, nil, nil, new(10.0)}, chart.Hint)
	zero := unix(at)
	require.Equal(t, [][2]float64{{zero + 30, zero + 50}}, chart.Pauses)
	require.Equal(t, [][2]float64{{zero + 80, zero + 120}}, chart.Hints)
	empty := chartOf(client.Endpoint{}, nil, stats.History{At: at})
	require.NotNil(t, empty.Times, "a chart of nothing is a list")
}

// An error about a member of an object or a list is shown at its input or its row.
func TestEveryErrorFindsItsField(t *testing.T) {
	t.Parallel()
	f := newForm(map[string]string{
		"rule0Type": "", "rule1Type": "header", "rule1Of": "X", "rule2Type": "json", "redact3Type": "pattern", "redact3Of": "(",
	})
	f.document()
	f.blame(&[]client.FieldError{
		{Field: "auth.clientId", Message: "a"},
		{Field: "auth", Message: "b"},
		{Field: "auth.scopes[1]", Message: "c"},
		{Field: "tls.minVersion", Message: "d"},
		{Field: "successRules[1].jsonPath", Message: "e"},
		{Field: "redact[0].pattern", Message: "f"},
		{Field: "query.page", Message: "g"},
		{Field: "retry.backoffMs", Message: "h"},
		{Field: "sign", Message: "i"},
		{Field: "responseTailKb", Message: "j"},
		{Field: "unheard.of", Message: "k"},
	})
	require.Equal(t, map[string]string{
		"authClientId": "a", "authType": "b", "authScopes": "c", "tlsMinVersion": "d", "rule2": "e", "redact3": "f", "query": "query.page g", "retry.backoffMs": "h",
		"sign": "i", "responseTailKb": "j",
	}, f.errors)
	require.Equal(t, "unheard.of k", f.problem)
}

// A suggestion is drawn inside the clamps and for as long as it would hold. Fields that it does not
// name are left to the decision with the suggestion.
func TestASuggestionIsDrawnAsItWouldHold(t *testing.T) {
	t.Parallel()
	c := tempoChart{Now: 1000, Min: new(10.0), Max: new(60.0), Baseline: new(30.0)}
	interval := client.PlannerSuggestion{Interval: &client.PlannerChange{SpanMs: 2000, TTLMs: new(int64(100_000))}}
	require.Equal(t, &forecastChart{Times: []float64{1000, 1100, 1100.001}, Interval: []*float64{new(10.0), new(10.0), new(30.0)}}, forecast(c, interval, client.Decision{}))
	pause := client.PlannerSuggestion{Pause: &client.PlannerChange{SpanMs: 50_000}}
	require.Equal(t, &[2]float64{1000, 1050}, forecast(c, pause, client.Decision{}).Paused)
	once := client.PlannerSuggestion{OneShot: &client.PlannerChange{SpanMs: 5000}}
	require.Equal(t, []float64{1000, 1007}, forecast(c, once, client.Decision{NextRunAt: new(time.Unix(1007, 0))}).Times)
	require.Empty(t, forecast(c, once, client.Decision{}).Times)
}

// The card that this is built with can be read, and a breach on a card is never hidden.
func TestTheGuaranteeCardIsShownAsItWasWritten(t *testing.T) {
	t.Parallel()
	require.NotPanics(t, func() { newChaosCard() })
	var c chaosCard
	require.NoError(t, json.Unmarshal([]byte(`[
		{"name": "kill -9", "fault": "a worker is killed", "fired": "5 kills", "recoveryMs": 1500, "report": {"auditedAt": "2026-11-20T10:00:00Z",
			"counts": {"starts": 1528, "duplicates": 0, "overlaps": 8, "excused": 8}, "lateness": {"p99Ms": 5131, "maxMs": 6147}, "checks": [{"breaches": 0}]}},
		{"name": "<i>outage</i>", "fault": "f", "fired": "", "recoveryMs": 0, "report": {"auditedAt": "2026-11-21T10:00:00Z",
			"counts": {"starts": 2, "duplicates": 1}, "lateness": {}, "checks": [{"breaches": 0}, {"breaches": 2}]}}]`), &c))
	show := func(c chaosCard) string {
		var page strings.Builder
		require.NoError(t, chaosCardPart(c).Render(t.Context(), &page))
		return page.String()
	}
	for _, want := range []string{"2 scenarios, 1\u202f530 starts, 1 duplicate requests", "2 breaches", "2 broken", "8 excused", "5.1 s", "21 November 2026", "&lt;i&gt;outage"} {
		require.Contains(t, show(c), want)
	}
	require.Contains(t, show(c[:1]), "all guarantees held")
	require.Contains(t, show(nil), "This build contains no guarantee card")
}
