package openai_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
)

// tighten is a proposal that the test desk accepts.
func tighten() openaitest.Invocation {
	return openaitest.Invoke("propose_interval", map[string]any{"interval_seconds": 30, "ttl_minutes": 15, "reason": "it fails"})
}

func TestASessionReadsProposesAndSubmits(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Session(
		openaitest.Tools(openaitest.Invoke("get_latest_response", map[string]any{})),
		openaitest.Tools(tighten(), openaitest.Submission("it fails with 503, so it is watched more closely")),
	))
	b.desk.body = `{"status":"busy","queue":{"depth":120}}`

	verdict, err := b.advise(t)

	require.NoError(t, err)
	require.Equal(t, planner.Verdict{
		Reasoning: "it fails with 503, so it is watched more closely", Confidence: 0.8, NextAnalysisIn: time.Hour,
	}, verdict)
	require.Equal(t, []planner.IntervalProposal{{Interval: 30 * time.Second, TTL: 15 * time.Minute, Reason: "it fails"}}, b.desk.intervals)
	calls := b.service.Calls()
	require.Len(t, calls, 2)
	require.Equal(t, "Bearer "+theKey, calls[0].Header.Get("Authorization"))
	require.Contains(t, calls[0].Request.Messages[1].Content, `"$.queue.depth":120`, "values are offered before bodies are")
	require.NotContains(t, calls[0].Request.Messages[1].Content, "data", "bodies come only to those who ask")
	require.JSONEq(t, `{"result":{"status":"failed","code":503,"ms":1000,"s_ago":60,"type":"application/json",
		"values":{"$.queue.depth":120,"$.status":"busy","$.ok":false},"data":"{\"queue\":{\"depth\":120},\"status\":\"busy\"}"}}`, calls[1].Request.Answers()[0])
	require.Zero(t, b.budget.held, "everything that was reserved is settled")
	require.Len(t, b.desk.spent, 2)
	require.Len(t, b.desk.spent[0].PromptDigest, 64)
	require.Equal(t, b.desk.spent[1].PromptTokens*2+b.desk.spent[1].CompletionTokens*8, b.desk.spent[1].CostMicros)
}

func TestSessionStaysWithinItsTokens(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"json":     `{"items":[` + strings.Repeat(`{"id":1,"state":"waiting"},`, 400) + `{}]}`,
		"prose":    strings.Repeat("the queue is long and grows ", 300),
		"ideogram": strings.Repeat("漢字", 3000),
		"symbols":  strings.Repeat("~!@#$%^", 900),
		"letters":  strings.Repeat("xqzjvk ", 900),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read := openaitest.Tools(openaitest.Invoke("get_latest_response", map[string]any{}), openaitest.Invoke("get_response_history", map[string]any{"limit": 10}))
			b := setup(t, openaitest.Session(read, openaitest.Tools(tighten()), openaitest.Tools(openaitest.Submission("done"))))
			b.desk.body = body
			_, err := b.advise(t)
			require.NoError(t, err, "there is room to propose and submit after reading")
			require.Len(t, b.desk.intervals, 1)
			require.LessOrEqual(t, b.desk.tokens(), int64(openai.DefaultSessionTokens))
		})
	}
}

func TestLoopingModelIsForcedToSubmit(t *testing.T) {
	t.Parallel()
	script := func(c openaitest.Call) openaitest.Answer {
		if c.Request.Forced() == "submit_analysis" {
			return openaitest.Tools(openaitest.Submission("enough"))
		}
		return openaitest.ToolsFor(openaitest.Usage{Prompt: 10, Completion: 1}, tighten())
	}
	b := setup(t, script)
	verdict, err := b.advise(t)
	require.NoError(t, err)
	require.Equal(t, "enough", verdict.Reasoning)
	require.LessOrEqual(t, len(b.service.Calls()), 8)

	greedy := func(c openaitest.Call) openaitest.Answer {
		if c.Request.Forced() == "submit_analysis" {
			return openaitest.Tools(openaitest.Submission("enough"))
		}
		return openaitest.ToolsFor(openaitest.Usage{Prompt: 10, Completion: 1}, tighten(), tighten(), tighten(), tighten(), tighten())
	}
	b = setup(t, greedy)
	_, err = b.advise(t)
	require.Error(t, err, "a sixteenth call is not made")
	require.LessOrEqual(t, len(b.desk.intervals), planner.MaxCalls)
}

func TestEveryRequestIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Always(openaitest.Tools(openaitest.Submission("nothing to do"))))
	b.desk.body = "{}"
	_, err := b.advise(t)
	require.NoError(t, err)
	request := b.service.Calls()[0].Request
	require.Positive(t, request.MaxCompletionTokens)
	require.LessOrEqual(t, request.MaxCompletionTokens, openai.DefaultCompletionTokens)
	require.Nil(t, request.Temperature, "models that reason take none")
	require.Len(t, request.Tools, 8)
	for _, tool := range request.Tools {
		require.NotContains(t, strings.ToLower(string(tool.Function.Parameters)), "endpoint", "the desk decides which endpoint it is about")
	}
	require.Less(t, len(b.service.Calls()[0].Body), 6000, "three requests have to fit a session")

	cold := setup(t, openaitest.Always(openaitest.Tools(openaitest.Submission("nothing to do"))), func(c *openai.Config) { c.Temperature = new(0.0) })
	_, err = cold.advise(t)
	require.NoError(t, err)
	require.NotNil(t, cold.service.Calls()[0].Request.Temperature)
	require.InDelta(t, 0, *cold.service.Calls()[0].Request.Temperature, 1e-9)
}

func TestGuardrailRefusalsReachTheModel(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Session(
		openaitest.Tools(openaitest.Invoke("propose_interval", map[string]any{"interval_seconds": 1, "ttl_minutes": 15, "reason": "fast"})),
		openaitest.Tools(openaitest.Submission("it may not be faster")),
	))
	_, err := b.advise(t)
	require.NoError(t, err)
	require.Zero(t, b.desk.proposals())
	require.JSONEq(t, `{"error":"the clamps are 10 s to 1 h"}`, b.service.Calls()[1].Request.Answers()[0])
}

// TestInvalidCallsAreReportedAndNeverExecuted makes each kind of invalid call once. The model gets
// an error text, and the desk gets no call.
func TestInvalidCallsAreReportedAndNeverExecuted(t *testing.T) {
	t.Parallel()
	good := `"interval_seconds":30,"ttl_minutes":15,"reason":"r"`
	for name, call := range map[string]openaitest.Invocation{
		"unknown tool":       {Name: "delete_endpoint", Arguments: "{}"},
		"no name":            {Arguments: "{}"},
		"foreign endpoint":   {Name: "propose_interval", Arguments: `{` + good + `,"endpoint_id":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"}`},
		"other tenant":       {Name: "get_latest_response", Arguments: `{"tenant":"t2"}`},
		"not JSON":           {Name: "propose_interval", Arguments: `interval=30`},
		"cut":                {Name: "propose_interval", Arguments: `{"interval_seconds":30,"ttl_mi`},
		"two objects":        {Name: "propose_interval", Arguments: `{` + good + `}{}`},
		"array":              {Name: "propose_interval", Arguments: `[30]`},
		"null":               {Name: "propose_interval", Arguments: `null`},
		"twice":              {Name: "propose_interval", Arguments: `{` + good + `,"interval_seconds":1}`},
		"another case":       {Name: "propose_interval", Arguments: `{"Interval_Seconds":30,"ttl_minutes":15,"reason":"r"}`},
		"missing":            {Name: "propose_interval", Arguments: `{"interval_seconds":30,"reason":"r"}`},
		"missing reason":     {Name: "clear_hints", Arguments: `{}`},
		"null argument":      {Name: "propose_interval", Arguments: `{"interval_seconds":null,"ttl_minutes":15,"reason":"r"}`},
		"number as text":     {Name: "propose_interval", Arguments: `{"interval_seconds":"30","ttl_minutes":15,"reason":"r"}`},
		"text as number":     {Name: "clear_hints", Arguments: `{"reason":7}`},
		"empty reason":       {Name: "clear_hints", Arguments: `{"reason":" "}`},
		"negative":           {Name: "propose_interval", Arguments: `{"interval_seconds":-30,"ttl_minutes":15,"reason":"r"}`},
		"1 ms":               {Name: "propose_interval", Arguments: `{"interval_seconds":0.001,"ttl_minutes":15,"reason":"r"}`},
		"10^18":              {Name: "propose_interval", Arguments: `{"interval_seconds":1e18,"ttl_minutes":15,"reason":"r"}`},
		"10^400":             {Name: "propose_interval", Arguments: `{"interval_seconds":1e400,"ttl_minutes":15,"reason":"r"}`},
		"10^200000":          {Name: "propose_interval", Arguments: `{"interval_seconds":1e200000,"ttl_minutes":15,"reason":"r"}`},
		"NaN":                {Name: "propose_interval", Arguments: `{"interval_seconds":NaN,"ttl_minutes":15,"reason":"r"}`},
		"life of a year":     {Name: "propose_interval", Arguments: `{"interval_seconds":30,"ttl_minutes":525600,"reason":"r"}`},
		"no life":            {Name: "propose_interval", Arguments: `{"interval_seconds":30,"ttl_minutes":0,"reason":"r"}`},
		"the past":           {Name: "propose_next_run", Arguments: `{"in_seconds":-60,"ttl_minutes":15,"reason":"r"}`},
		"year 10^6":          {Name: "propose_next_run", Arguments: `{"in_seconds":31536000000000,"ttl_minutes":15,"reason":"r"}`},
		"pause for ever":     {Name: "pause_until", Arguments: `{"minutes":1e9,"reason":"r"}`},
		"pause for a day":    {Name: "pause_until", Arguments: `{"minutes":1440,"reason":"r"}`},
		"history of all":     {Name: "get_response_history", Arguments: `{"limit":100000}`},
		"confidence of 2":    {Name: "submit_analysis", Arguments: `{"reasoning":"r","confidence":2,"next_analysis_in_minutes":5}`},
		"never again":        {Name: "submit_analysis", Arguments: `{"reasoning":"r","confidence":1,"next_analysis_in_minutes":1e12}`},
		"a megabyte":         {Name: "clear_hints", Arguments: `{"reason":"` + strings.Repeat("a", 100<<10) + `"}`},
		"nested deep":        {Name: "clear_hints", Arguments: strings.Repeat(`{"reason":`, 3000)},
		"control characters": {Name: "propose\x00interval", Arguments: "{\x00}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, openaitest.Session(openaitest.ToolsFor(openaitest.Usage{Prompt: 900, Completion: 500}, call), openaitest.Tools(openaitest.Submission("I was wrong"))))
			verdict, err := b.advise(t)
			require.NoError(t, err)
			require.Equal(t, "I was wrong", verdict.Reasoning)
			require.Zero(t, b.desk.proposals())
			require.Equal(t, 2, b.desk.calls, "the session looked once and the model's call was noted")
			require.Len(t, b.desk.refused, 1)
			var kept any
			require.NoError(t, json.Unmarshal(b.desk.refused[0].Arguments, &kept), "numbers that no machine holds are kept as text")
			require.LessOrEqual(t, len(b.desk.refused[0].Arguments), 2000)
			require.NotEmpty(t, b.desk.refused[0].Result)
			var told struct{ Error string }
			require.NoError(t, json.Unmarshal([]byte(b.service.Calls()[1].Request.Answers()[0]), &told))
			require.Equal(t, b.desk.refused[0].Result, told.Error)
		})
	}
}
