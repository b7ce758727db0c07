package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
)

// exportPage is how many endpoints are read at once.
const exportPage = 500

// ExportEndpoints writes endpoints as lines that an import takes.
func (s *Server) ExportEndpoints(ctx context.Context, r api.ExportEndpointsRequestObject) (api.ExportEndpointsResponseObject, error) {
	p := r.Params
	f, err := endpointFilter(ctx, api.ListEndpointsParams{
		Label:      p.Label,
		Key:        p.Key,
		Name:       p.Name,
		NamePrefix: p.NamePrefix,
		Host:       p.Host,
		State:      p.State,
	})
	if err != nil {
		return nil, err
	}
	f.Limit = exportPage
	found, err := s.exportable(ctx, f) // The first page may still be refused.
	if err != nil {
		return nil, err
	}
	return exportAnswer(func(w http.ResponseWriter) error { return s.export(ctx, w, f, found) }), nil
}

// exportAnswer writes the answer to an export.
type exportAnswer func(w http.ResponseWriter) error

// VisitExportEndpointsResponse writes the answer.
func (a exportAnswer) VisitExportEndpointsResponse(w http.ResponseWriter) error { return a(w) }

func (s *Server) export(ctx context.Context, w http.ResponseWriter, f endpoints.Filter, found []*endpoints.Endpoint) error {
	answer := openStream(w, lineMedia)
	defer answer.close()
	ctx, cancel := s.whileServing(ctx)
	defer cancel()
	for {
		text, err := exportLines(found)
		if err != nil {
			return err
		}
		if err := answer.write(text); err != nil {
			return nil // The client has gone or does not read, and the stream gives it up.
		}
		if len(found) < f.Limit {
			return nil
		}
		f.Before = found[len(found)-1].ID
		if err = s.stillIn(ctx); err == nil { // A client may read for hours.
			found, err = s.exportable(ctx, f)
		}
		if err != nil {
			s.logger.WarnContext(ctx, "export broken off", "error", err)
			answer.broken.Store(true) // An answer that just ended would look whole.
			return nil
		}
	}
}

// exportable returns a page of endpoints. If the stored configuration of one cannot be read, the
// error is that fault: an export without it would look whole.
func (s *Server) exportable(ctx context.Context, f endpoints.Filter) ([]*endpoints.Endpoint, error) {
	found, _, err := s.endpoints.List(ctx, f)
	for _, e := range found {
		if e.Fault != nil {
			return nil, e.Fault
		}
	}
	return found, err
}

func exportLines(list []*endpoints.Endpoint) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, e := range list {
		if err := encoder.Encode(exportLine(e)); err != nil {
			return nil, fmt.Errorf("writing endpoint %s: %w", e.ID, err)
		}
	}
	return text.Bytes(), nil
}

// exportLine returns an endpoint as an import takes it.
func exportLine(e *endpoints.Endpoint) map[string]any {
	line := shownSpec(&e.Spec)
	line["id"] = e.ID.String()
	return line
}
