package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"rubato/client"
)

const (
	// importLines is the number of lines per import; the API accepts up to 100,000.
	importLines = 20_000
	// importTimeout bounds one import. It assumes a tenth of the throughput that a busy machine has
	// shown.
	importTimeout = 5 * time.Minute
)

// load registers n endpoints by import, and returns how long that took. It is for measurements that
// are not about registration. specOf must set the first run of every endpoint, because import
// spreads first runs otherwise.
func (r *registrar) load(ctx context.Context, n int, specOf func(n int) client.EndpointSpec) (time.Duration, error) {
	begun := time.Now()
	for from := 0; from < n; from += importLines {
		if err := r.importPart(ctx, from, min(n, from+importLines), specOf); err != nil {
			return 0, fmt.Errorf("importing endpoints %d and on, of %d: %w", from+1, n, err)
		}
		r.progress.bar("endpoints registered", min(n, from+importLines), n)
	}
	return time.Since(begun), nil
}

// importPart imports the endpoints in a range of numbers, the end excluded.
func (r *registrar) importPart(ctx context.Context, from, to int, specOf func(n int) client.EndpointSpec) error {
	ctx, cancel := context.WithTimeout(ctx, importTimeout)
	defer cancel()
	body, lines := io.Pipe()
	go func() { lines.CloseWithError(writeLines(lines, from, to, specOf)) }()
	defer func() { _ = body.Close() }() // Ends the writer if the request ended first.
	res, err := r.bulk.ImportEndpointsWithBody(ctx, nil, "application/x-ndjson", body)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return readResults(res.Body, to-from)
}

// writeLines writes a line per endpoint in a range of numbers, the end excluded.
func writeLines(to io.Writer, from, end int, specOf func(n int) client.EndpointSpec) error {
	out := bufio.NewWriterSize(to, 64<<10)
	encoder := json.NewEncoder(out)
	for i := from; i < end; i++ {
		if err := encoder.Encode(specOf(i)); err != nil {
			return err
		}
	}
	return out.Flush()
}

// importAnswer is a line of an import's answer: a result, or the final summary.
type importAnswer struct {
	Line   int             `json:"line"`
	Status string          `json:"status"`
	Error  json.RawMessage `json:"error"`

	Summary *struct {
		Created  int  `json:"created"`
		Complete bool `json:"complete"`
	} `json:"summary"`
}

// readResults reads an import's answer, and requires that every endpoint was created.
func readResults(body io.Reader, sent int) error {
	results := json.NewDecoder(body)
	for {
		var a importAnswer
		if err := results.Decode(&a); errors.Is(err, io.EOF) {
			return errors.New("the answer ended before its summary")
		} else if err != nil {
			return fmt.Errorf("reading the answer of the API: %w", err)
		}
		switch {
		case len(a.Error) > 0 && a.Summary == nil:
			return fmt.Errorf("line %d was refused: %s", a.Line, a.Error)
		case len(a.Error) > 0:
			return fmt.Errorf("it was broken off after %d of %d endpoints: %s", a.Summary.Created, sent, a.Error)
		case a.Summary == nil:
			continue
		case !a.Summary.Complete || a.Summary.Created != sent:
			return fmt.Errorf("only %d of %d endpoints were created", a.Summary.Created, sent)
		}
		return nil
	}
}
