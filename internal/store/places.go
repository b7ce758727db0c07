package store

import (
	"github.com/jackc/pgx/v5/pgtype"

	"rubato/internal/claims"
)

// place returns the place of a row version as claims know it.
func place(t pgtype.TID) claims.Place {
	return claims.Place{Block: t.BlockNumber, Offset: t.OffsetNumber}
}

// tid returns a place as the driver sends it.
func tid(p claims.Place) pgtype.TID {
	return pgtype.TID{BlockNumber: p.Block, OffsetNumber: p.Offset, Valid: true}
}
