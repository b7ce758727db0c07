package items

import (
	"github.com/jackc/pgx/v5/pgtype"

	"rubato/internal/claims"
)

// place returns the ctid of a row version in the form of claims.
func place(t pgtype.TID) claims.Place {
	return claims.Place{Block: t.BlockNumber, Offset: t.OffsetNumber}
}

// tid returns a place in the form of the driver.
func tid(p claims.Place) pgtype.TID {
	return pgtype.TID{
		BlockNumber:  p.Block,
		OffsetNumber: p.Offset,
		Valid:        true,
	}
}
