package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/runs"
)

// Ledger reads the decisions about endpoints.
type Ledger interface {
	// Decisions returns up to limit decisions about an endpoint after a position of its ledger,
	// newest first; none if the tenant has no such endpoint.
	Decisions(ctx context.Context, tenant [16]byte, id endpoints.ID, after endpoints.LedgerPosition, limit int) ([]endpoints.LedgerDecision, error)
}

// ListEndpointDecisions returns a page of the decisions about an endpoint.
func (s *Server) ListEndpointDecisions(ctx context.Context, r api.ListEndpointDecisionsRequestObject) (api.ListEndpointDecisionsResponseObject, error) {
	id, err := endpoints.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	digest := filterDigest("decisions", principalOf(ctx).TenantID, id)
	after, err := resumeLedger(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.endpoints.Get(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	asked := limitOf(r.Params.Limit) + 1
	found, err := s.ledger.Decisions(ctx, principalOf(ctx).TenantID, id, after, asked)
	if err != nil {
		return nil, err
	}
	out := api.ListEndpointDecisions200JSONResponse{Items: []api.RecordedDecision{}}
	found, more := page(found, asked)
	for _, d := range found {
		item, err := recordedAnswer(d)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, item)
	}
	if more {
		out.NextCursor = new(ledgerCursor(found[len(found)-1].Position, digest))
	}
	return out, nil
}

func recordedAnswer(d endpoints.LedgerDecision) (api.RecordedDecision, error) {
	shown := decisionAnswer(d.Due.At, d.Due.Source, d.Decision.Steps)
	out := api.RecordedDecision{
		NextRunAt: shown.NextRunAt,
		Source:    shown.Source,
		Steps:     shown.Steps,
		DecidedAt: d.At.UTC(),
		Cause:     string(d.Cause),
		Author:    optional(d.Author),
		Version:   d.Version,
	}
	if d.RunID != [16]byte{} {
		out.RunID = new(runs.ID(d.RunID).String())
	}
	if d.StoredInput != nil {
		out.Input = &map[string]any{}
		if err := json.Unmarshal(d.StoredInput, out.Input); err != nil {
			return out, fmt.Errorf("reading the input of a decision: %w", err)
		}
	}
	return out, nil
}

// positionSize is the length of a position of the ledger in a cursor: a run and the number of a
// change.
const positionSize = 16 + 8

// ledgerCursor is cursor for a ledger, which has a position in two lists.
func ledgerCursor(p endpoints.LedgerPosition, digest [digestSize]byte) string {
	raw := binary.BigEndian.AppendUint64(p.Run[:], uint64(p.Change))
	return base64.RawURLEncoding.EncodeToString(append(raw, digest[:]...))
}

// resumeLedger is resume for a ledger.
func resumeLedger(given *string, digest [digestSize]byte) (p endpoints.LedgerPosition, err error) {
	if given == nil {
		return p, nil
	}
	raw, err := decodeCursor(*given)
	if err != nil {
		return p, err
	}
	p.Change = -1
	if len(raw) == positionSize+digestSize {
		p.Run, p.Change = [16]byte(raw), int64(binary.BigEndian.Uint64(raw[16:]))
	}
	if p.Change < 0 {
		return p, noCursor()
	}
	if [digestSize]byte(raw[positionSize:]) != digest {
		return p, invalidCursor("belongs to the decisions about another endpoint; start again without a cursor")
	}
	return p, nil
}
