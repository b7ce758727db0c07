package pg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// epoch is the Postgres epoch, the year 2000, in Unix microseconds.
const epoch = 946_684_800_000_000

// instants is the codec of timestamptz. It returns times in UTC rather than in the local zone. It
// decodes nullable and plain times without reflection, because batches decode thousands.
type instants struct{ *pgtype.TimestamptzCodec }

// PlanScan implements pgtype.Codec. Other targets than times fall back to the driver's codec.
func (c instants) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if format == pgtype.BinaryFormatCode {
		switch target.(type) {
		case *time.Time:
			return scanInstant{}
		case **time.Time:
			return scanNullableInstant{}
		}
	}
	return c.TimestamptzCodec.PlanScan(m, oid, format, target)
}

type scanInstant struct{}

// Scan implements pgtype.ScanPlan.
func (scanInstant) Scan(raw []byte, target any) (err error) {
	into, ok := target.(*time.Time)
	if !ok {
		return fmt.Errorf("decode a timestamp into %T: unsupported target", target)
	}
	*into, err = readInstant(raw)
	return err
}

type scanNullableInstant struct{}

// Scan implements pgtype.ScanPlan.
func (scanNullableInstant) Scan(raw []byte, target any) error {
	into, ok := target.(**time.Time)
	if !ok {
		return fmt.Errorf("decode a timestamp into %T: unsupported target", target)
	}
	if raw == nil {
		*into = nil
		return nil
	}
	at, err := readInstant(raw)
	*into = &at
	return err
}

// readInstant decodes the binary format of a timestamp. Infinity is an error.
func readInstant(raw []byte) (time.Time, error) {
	if len(raw) != 8 {
		return time.Time{}, fmt.Errorf("decode a timestamp: %d bytes instead of 8", len(raw))
	}
	micros := int64(binary.BigEndian.Uint64(raw))
	if micros == math.MaxInt64 || micros == math.MinInt64 {
		return time.Time{}, errors.New("decode a timestamp: infinity is not supported")
	}
	return time.UnixMicro(micros + epoch).UTC(), nil
}

// instantsInUTC registers the codec on a connection, for timestamps and arrays of them.
func instantsInUTC(m *pgtype.Map) {
	instant := &pgtype.Type{
		Name:  "timestamptz",
		OID:   pgtype.TimestamptzOID,
		Codec: instants{&pgtype.TimestamptzCodec{ScanLocation: time.UTC}},
	}
	m.RegisterType(instant)
	m.RegisterType(&pgtype.Type{
		Name:  "_timestamptz",
		OID:   pgtype.TimestamptzArrayOID,
		Codec: &pgtype.ArrayCodec{ElementType: instant},
	})
}
