package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// documents is the codec of jsonb that hands out the text of a document as it is. The driver's own parses it first, though Postgres stores
// nothing that is no JSON, and whoever reads it parses it anyway.
type documents struct{ *pgtype.JSONBCodec }

// PlanScan implements pgtype.Codec. Into anything else the driver reads.
func (c documents) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, raw := target.(*json.RawMessage); raw && format == pgtype.TextFormatCode { // Which is what the driver asks for.
		return scanDocument{}
	}
	return c.JSONBCodec.PlanScan(m, oid, format, target)
}

type scanDocument struct{}

// Scan implements pgtype.ScanPlan.
func (scanDocument) Scan(raw []byte, target any) error {
	into, ok := target.(*json.RawMessage)
	if !ok {
		return fmt.Errorf("reading a document into %T", target)
	}
	*into = slices.Clone(raw) // The driver uses its buffer again.
	return nil
}

// documentsAsTheyAre registers the codec with a connection.
func documentsAsTheyAre(m *pgtype.Map) {
	known, ok := m.TypeForOID(pgtype.JSONBOID)
	if !ok {
		panic("the driver knows no jsonb")
	}
	m.RegisterType(&pgtype.Type{Name: known.Name, OID: known.OID, Codec: documents{known.Codec.(*pgtype.JSONBCodec)}}) //nolint:forcetypeassert // It has no other.
}

// emptyObject reports whether a document has no members, which most have not.
func emptyObject(raw json.RawMessage) bool { return string(raw) == "{}" }
