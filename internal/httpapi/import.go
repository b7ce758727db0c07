package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
)

const (
	lineMedia = "application/x-ndjson"

	maxLines     = 100_000
	batchLines   = 500     // stored at once
	batchBytes   = 8 << 20 // of lines that wait to be stored
	defaultFirst = 1
)

// ImportEndpoints creates and replaces many endpoints. Everything happens while the answer is
// written.
func (s *Server) ImportEndpoints(ctx context.Context, r api.ImportEndpointsRequestObject) (api.ImportEndpointsResponseObject, error) {
	release, err := s.imports.acquire(principalOf(ctx).TenantID)
	if err != nil {
		return nil, err
	}
	m := &importer{
		server: s,
		by:     actorOf(ctx),
		first:  defaultFirst,
	}
	m.mode.Spread = true
	m.mode.DryRun = r.Params.DryRun != nil && *r.Params.DryRun == api.ImportEndpointsParamsDryRunTrue
	if m.mode.DryRun {
		m.mode.DryRunKeys = endpoints.NewDryRunKeys()
	}
	if r.Params.From != nil {
		m.first = int(*r.Params.From)
	}
	return importAnswer(func(w http.ResponseWriter) error {
		defer release()
		return m.run(ctx, w, r.Body)
	}), nil
}

// importAnswer writes the answer to an import.
type importAnswer func(w http.ResponseWriter) error

// VisitImportEndpointsResponse writes the answer.
func (a importAnswer) VisitImportEndpointsResponse(w http.ResponseWriter) error { return a(w) }

// importer carries out one import.
type importer struct {
	server *Server
	by     endpoints.Actor
	mode   endpoints.Mode
	first  int // line to begin with

	batch  []endpoints.Upsert
	lines  []int // the line of each upsert of the batch
	bytes  int
	counts api.ImportCounts
	out    *outbox
}

func (m *importer) run(ctx context.Context, w http.ResponseWriter, body io.Reader) error {
	ctx, cancel := m.server.whileServing(ctx)
	defer cancel()
	answer := openStream(w, lineMedia)
	defer answer.close()
	_ = answer.controller.EnableFullDuplex() // HTTP/2 has it anyway.
	m.out = newOutbox(answer)
	m.counts.NextLine = int32(m.first)
	err := m.read(ctx, newLines(body, answer.controller))
	if !errors.Is(err, errOutboxFull) {
		err = errors.Join(m.finish(err), err)
	}
	closed := m.out.close()
	switch {
	case closed != nil: // The client has disconnected, so that no response can be sent.
		answer.broken.Store(true)
	case errs.CodeOf(err) == errs.Internal && err != nil && ctx.Err() == nil:
		m.server.logger.ErrorContext(ctx, "import broken off", "line", m.counts.NextLine, "error", err)
	}
	return nil
}

// read carries out every line. The error says why the rest is left.
func (m *importer) read(ctx context.Context, body *lines) error {
	for {
		text, err := body.next()
		switch {
		case errors.Is(err, io.EOF) && m.first > body.number+1: // The one after the last is where an import that broke off at its very end goes on.
			return errs.New(errs.Malformed, "from_beyond_end", fmt.Sprintf("from is %d, and only %d lines came; nothing was done", m.first, body.number))
		case errors.Is(err, io.EOF):
			return m.flush(ctx)
		case err != nil && !errors.Is(err, ErrLineTooLong):
			return errors.Join(m.flush(ctx), errs.Wrap(err, errs.Malformed, "the lines broke off; go on with the next line"))
		case body.number > maxLines:
			return errors.Join(m.flush(ctx), errs.New(errs.Malformed, "too_many_lines", fmt.Sprintf("at most %d lines are taken at once; send the rest by another import", maxLines)))
		case body.number < m.first:
			continue
		}
		m.add(body.number, text, err)
		if len(m.batch) >= batchLines || m.bytes >= batchBytes {
			if err := m.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add takes a line into the batch.
func (m *importer) add(number int, text []byte, err error) {
	u := unusable(endpoints.Spec{}, err)
	if err == nil {
		if len(bytes.TrimSpace(text)) == 0 {
			return
		}
		u = m.server.importLine(text)
	}
	m.batch, m.lines = append(m.batch, u), append(m.lines, number)
	m.bytes += len(text)
}

// flush stores the batch and answers its lines.
func (m *importer) flush(ctx context.Context) error {
	if len(m.batch) == 0 {
		return ctx.Err()
	}
	if err := m.server.stillIn(ctx); err != nil { // Lines may come for hours.
		return err
	}
	outcomes, err := m.server.bulk.Upsert(ctx, m.by, m.batch, m.mode)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for i, o := range outcomes {
		if o.Done == "" { // Not reached: answers are in order, so they end here.
			break
		}
		m.count(o.Done)
		m.counts.NextLine = int32(m.lines[i]) + 1
		if err := encoder.Encode(lineResult(m.lines[i], m.batch[i], o, m.mode.DryRun)); err != nil {
			return fmt.Errorf("writing the result of line %d: %w", m.lines[i], err)
		}
	}
	m.batch, m.lines, m.bytes = m.batch[:0], m.lines[:0], 0
	return errors.Join(m.out.put(text.Bytes()), err, ctx.Err())
}

func (m *importer) count(d endpoints.Done) {
	c := &m.counts
	c.Lines++
	switch {
	case d == endpoints.Failed:
		c.Failed++
	case d == endpoints.Unchanged:
		c.Unchanged++
	case m.mode.DryRun:
		c.Valid++
	case d == endpoints.Created:
		c.Created++
	case d == endpoints.Updated:
		c.Updated++
	}
}

// finish answers the summary. err says why lines are left, if some are.
func (m *importer) finish(err error) error {
	m.counts.Complete = err == nil
	summary := api.ImportSummary{Summary: m.counts}
	if err != nil {
		switch {
		case errors.Is(err, context.Canceled) && m.server.serving.Err() != nil:
			err = errs.Wrap(err, errs.Unavailable, "the server stops; go on with the next line")
		case errors.Is(err, context.Canceled): // Half closed or disconnected: a server cannot distinguish the two.
			err = errs.Wrap(err, errs.Malformed,
				"the client closed its side of the connection, as one that leaves; keep it open until the summary, and go on with the next line")
		}
		summary.Error = lineError(err)
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return m.out.put(append(text, '\n'))
}
