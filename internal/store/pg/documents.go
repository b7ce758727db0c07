package pg

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// documents is the codec of jsonb that returns the raw text of a document. The driver's codec
// validates it first. That is redundant, because Postgres stores valid JSON only and callers parse
// it anyway.
type documents struct{ *pgtype.JSONBCodec }

// PlanScan implements pgtype.Codec. Other targets than *json.RawMessage fall back to the driver's
// codec.
func (c documents) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, raw := target.(*json.RawMessage); raw && format == pgtype.TextFormatCode { // The driver requests text.
		return scanDocument{}
	}
	return c.JSONBCodec.PlanScan(m, oid, format, target)
}

type scanDocument struct{}

// Scan implements pgtype.ScanPlan.
func (scanDocument) Scan(raw []byte, target any) error {
	into, ok := target.(*json.RawMessage)
	if !ok {
		return fmt.Errorf("decode a document into %T: unsupported target", target)
	}
	*into = slices.Clone(raw) // The driver reuses its buffer.
	return nil
}

// registerDocuments registers the codec on a connection.
func registerDocuments(m *pgtype.Map) {
	known, ok := m.TypeForOID(pgtype.JSONBOID)
	if !ok {
		panic("the driver knows no jsonb")
	}
	jsonb := known.Codec.(*pgtype.JSONBCodec) //nolint:forcetypeassert // The driver's only codec of jsonb.
	m.RegisterType(&pgtype.Type{
		Name:  known.Name,
		OID:   known.OID,
		Codec: documents{jsonb},
	})
}

// emptyObject reports whether a document is the empty object. Most are, so callers skip the decoder
// for them.
func emptyObject(raw json.RawMessage) bool { return string(raw) == "{}" }
