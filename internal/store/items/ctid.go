package items

import (
	"github.com/jackc/pgx/v5/pgtype"

	"rubato/internal/claims"
)

// ctid returns the position of a row version in the form of claims.
func ctid(t pgtype.TID) claims.CTID {
	return claims.CTID{Block: t.BlockNumber, Offset: t.OffsetNumber}
}

// tid returns the position of a row version in the form of the driver.
func tid(p claims.CTID) pgtype.TID {
	return pgtype.TID{
		BlockNumber:  p.Block,
		OffsetNumber: p.Offset,
		Valid:        true,
	}
}
