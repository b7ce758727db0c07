package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"rubato/client"
)

// against returns a client of a server that gives these answers, each of them to one method and
// path, and what stops the server.
func against(answers map[string]string) (*client.ClientWithResponses, func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		media := "application/json"
		if strings.HasSuffix(r.URL.Path, "/events") {
			media = "text/event-stream"
		}
		w.Header().Set("Content-Type", media)
		if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/pause") {
			w.WriteHeader(http.StatusCreated)
		}
		// The example detects a short answer.
		_, _ = io.WriteString(w, answers[r.Method+" "+r.URL.RequestURI()])
	}))
	c, err := client.New(server.URL, "rbt_key")
	if err != nil {
		panic(err)
	}
	return c, server.Close
}

// must ends an example that went wrong. A program looks at the error, which is a [*client.Problem]
// where the server refuses.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// An endpoint is registered, and called every half minute from then on.
func ExampleClientWithResponses_CreateEndpointWithResponse() {
	c, stop := against(map[string]string{
		"POST /v1/endpoints": `{"id":"ep_1","name":"Shop health","nextRunAt":"2026-11-21T10:00:30Z","version":1}`,
	})
	defer stop()
	answer, err := c.CreateEndpointWithResponse(context.Background(), client.EndpointSpec{
		Name: "Shop health", URL: "https://shop.example/health", BaselineIntervalMs: new((30 * time.Second).Milliseconds()),
	})
	must(err)
	must(client.Refused(answer.HTTPResponse, answer.Body))
	fmt.Println(answer.JSON201.ID, "runs at", answer.JSON201.NextRunAt.Format(time.TimeOnly))
	// Output: ep_1 runs at 10:00:30
}

// A list comes in pages, each of which names the next one.
func ExampleClientWithResponses_ListEndpointsWithResponse() {
	c, stop := against(map[string]string{
		"GET /v1/endpoints?label=team%3Ashop":             `{"items":[{"id":"ep_2","name":"b"}],"nextCursor":"here"}`,
		"GET /v1/endpoints?label=team%3Ashop&cursor=here": `{"items":[{"id":"ep_1","name":"a"}]}`,
	})
	defer stop()
	params := &client.ListEndpointsParams{Label: &[]string{"team:shop"}}
	for {
		answer, err := c.ListEndpointsWithResponse(context.Background(), params)
		must(err)
		must(client.Refused(answer.HTTPResponse, answer.Body))
		for _, e := range answer.JSON200.Items {
			fmt.Println(e.ID, e.Name)
		}
		if params.Cursor = answer.JSON200.NextCursor; params.Cursor == nil {
			break
		}
	}
	// Output:
	// ep_2 b
	// ep_1 a
}

// An endpoint rests for an hour.
func ExampleClientWithResponses_PauseEndpointWithResponse() {
	c, stop := against(map[string]string{"POST /v1/endpoints/ep_1/pause": `{"id":"ep_1","state":"paused"}`})
	defer stop()
	answer, err := c.PauseEndpointWithResponse(context.Background(), "ep_1", client.PauseRequest{
		Until: new(time.Now().Add(time.Hour)), Reason: new("the shop moves"),
	})
	must(err)
	must(client.Refused(answer.HTTPResponse, answer.Body))
	fmt.Println(answer.JSON200.State)
	// Output: paused
}

// A hint proposes another tempo, within the endpoint's bounds and for a while.
func ExampleClientWithResponses_PutIntervalHintWithResponse() {
	c, stop := against(map[string]string{"PUT /v1/endpoints/ep_1/hints/interval": `{"id":"ep_1","nextSource":"interval-hint"}`})
	defer stop()
	answer, err := c.PutIntervalHintWithResponse(context.Background(), "ep_1", client.IntervalHintRequest{
		IntervalMs: (10 * time.Second).Milliseconds(), TTLMs: new(time.Hour.Milliseconds()), Reason: new("the sale has begun"),
	})
	must(err)
	must(client.Refused(answer.HTTPResponse, answer.Body))
	fmt.Println(*answer.JSON200.NextSource)
	// Output: interval-hint
}

// The runs that failed since yesterday, or had no answer in time.
func ExampleClientWithResponses_ListRunsWithResponse() {
	c, stop := against(map[string]string{
		"GET /v1/runs?status=failed&status=timed_out&from=2026-11-20T00%3A00%3A00Z": `{"items":[{"id":"run_1","status":"failed","statusCode":503}]}`,
	})
	defer stop()
	answer, err := c.ListRunsWithResponse(context.Background(), &client.ListRunsParams{
		Status: &client.Status{client.RunStatusFailed, client.RunStatusTimedOut}, From: new(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)),
	})
	must(err)
	must(client.Refused(answer.HTTPResponse, answer.Body))
	for _, run := range answer.JSON200.Items {
		fmt.Println(run.ID, *run.StatusCode)
	}
	// Output: run_1 503
}

// Events come as they happen. The id of the last one that was read is where to go on after a cut.
func ExampleClient_WatchEvents() {
	c, stop := against(map[string]string{
		"GET /v1/events?types=run.finished": "id: one\n\nid: two\nevent: run.finished\ndata: {\"type\":\"run.finished\"}\n\n",
	})
	defer stop()
	response, err := c.WatchEvents(context.Background(), &client.WatchEventsParams{Types: new("run.finished")})
	must(err)
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	var last string
	for lines.Scan() {
		if id, is := strings.CutPrefix(lines.Text(), "id: "); is {
			last = id
		}
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			fmt.Println(data)
		}
	}
	must(lines.Err())
	fmt.Println("go on after", last)
	// Output:
	// {"type":"run.finished"}
	// go on after two
}

// A key for a program that only reads. Its secret is shown this once.
func ExampleClientWithResponses_CreateKeyWithResponse() {
	c, stop := against(map[string]string{"POST /v1/keys": `{"id":"key_1","name":"dashboard","secret":"rbt_secret"}`})
	defer stop()
	answer, err := c.CreateKeyWithResponse(context.Background(), client.KeySpec{
		Name: "dashboard", Scopes: []client.Scope{"read"}, ExpiresAt: new(time.Now().AddDate(1, 0, 0)),
	})
	must(err)
	must(client.Refused(answer.HTTPResponse, answer.Body))
	fmt.Println(answer.JSON201.ID, answer.JSON201.Secret)
	// Output: key_1 rbt_secret
}

// The changes of an endpoint with their authors, the newest first.
func ExampleClientWithResponses_ListAuditWithResponse() {
	c, stop := against(map[string]string{
		"GET /v1/audit?object=ep_1": `{"items":[{"action":"pause","actor":{"name":"night shift"}}]}`,
	})
	defer stop()
	answer, err := c.ListAuditWithResponse(context.Background(), &client.ListAuditParams{Object: new("ep_1")})
	must(err)
	must(client.Refused(answer.HTTPResponse, answer.Body))
	for _, entry := range answer.JSON200.Items {
		fmt.Println(entry.Action, "by", entry.Actor.Name)
	}
	// Output: pause by night shift
}
