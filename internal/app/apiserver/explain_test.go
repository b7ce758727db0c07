package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// answer is a decision or a refusal.
type answer struct {
	NextRunAt time.Time `json:"nextRunAt"`
	Source    string    `json:"source"`
	Line      int       `json:"line"`
	Error     *struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
		Errors []struct {
			Field string `json:"field"`
		} `json:"errors"`
	} `json:"error"`
}

func explained(t *testing.T, input string) (list []answer, refused int) {
	t.Helper()
	var out bytes.Buffer
	refused, err := Explain(strings.NewReader(input), &out, noon)
	require.NoError(t, err)
	for line := range strings.Lines(out.String()) {
		var a answer
		require.NoError(t, json.Unmarshal([]byte(line), &a), line)
		list = append(list, a)
	}
	return list, refused
}

func TestExplainDecidesLineByLine(t *testing.T) {
	t.Parallel()
	list, refused := explained(t, `{"baselineIntervalMs": 60000, "anchor": "2026-03-01T12:00:00Z", "now": "2026-03-01T12:00:00.2Z"}`+"\n"+
		"\n  \r\n"+
		`{"baselineIntervalMs": 60000, "anchor": "2026-03-01T12:00:00Z", "failureCount": 3}`)

	require.Zero(t, refused)
	require.Len(t, list, 2, "empty lines have no answer")
	require.Equal(t, noon().Add(time.Minute), list[0].NextRunAt)
	require.Equal(t, noon().Add(8*time.Minute), list[1].NextRunAt)
	require.Equal(t, "baseline-interval", list[1].Source)
}

func TestExplainReportsBadLinesInOrder(t *testing.T) {
	t.Parallel()
	list, refused := explained(t, "{\n"+
		`{"baselineIntervalMs": 60000}`+"\n"+
		`{"baselineIntervalMs": 1, "timezone": "Mars/Base"}`+"\n"+
		strings.Repeat("x", maxExplainLine+2)+"\n"+
		`{"baselineIntervalMs": 60000}`+"\n")

	require.Equal(t, 3, refused)
	require.Len(t, list, 5)
	require.Equal(t, 1, list[0].Line)
	require.NotEmpty(t, list[0].Error.Code)
	require.Equal(t, "column 2: the JSON ends too early", list[0].Error.Detail, "the end of the line is no part of the text")
	require.Nil(t, list[1].Error)
	require.Equal(t, 3, list[2].Line)
	var fields []string
	for _, f := range list[2].Error.Errors {
		fields = append(fields, f.Field)
	}
	require.ElementsMatch(t, []string{"baselineIntervalMs", "timezone"}, fields, "every bad field is named")
	require.Equal(t, 4, list[3].Line)
	require.Equal(t, "line_too_long", list[3].Error.Code)
	require.Nil(t, list[4].Error, "a line that is too long spoils no other")
}

// A long stream gets its answers while it is written, not at its end.
func TestExplainAnswersBeforeTheNextLineComes(t *testing.T) {
	t.Parallel()
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := Explain(in, out, noon)
		done <- errors.Join(err, out.Close())
	}()
	decoder := json.NewDecoder(answers)
	for range 3 {
		_, err := io.WriteString(feed, `{"baselineIntervalMs": 60000}`+"\n")
		require.NoError(t, err)
		var a answer
		require.NoError(t, decoder.Decode(&a))
		require.Equal(t, noon(), a.NextRunAt)
	}
	require.NoError(t, feed.Close())
	require.NoError(t, <-done)
}

func TestExplainReturnsReadAndWriteErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")

	_, err := Explain(io.MultiReader(strings.NewReader("\n"), iotest.ErrReader(broken)), io.Discard, noon)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "reading line 2")

	closed, out := io.Pipe()
	require.NoError(t, closed.Close())
	_, err = Explain(strings.NewReader("{}\n"), out, noon)
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
