package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// epoch is where Postgres counts microseconds from: the year 2000, in microseconds of Unix.
const epoch = 946_684_800_000_000

// instants is the codec of timestamptz: it returns instants in UTC rather than in the machine's zone, and reads them, nullable ones
// included, without reflection.
type instants struct{ *pgtype.TimestamptzCodec }

// PlanScan implements pgtype.Codec. Into what is no instant the driver reads.
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
		return fmt.Errorf("reading an instant into %T", target)
	}
	*into, err = readInstant(raw)
	return err
}

type scanNullableInstant struct{}

// Scan implements pgtype.ScanPlan.
func (scanNullableInstant) Scan(raw []byte, target any) error {
	into, ok := target.(**time.Time)
	if !ok {
		return fmt.Errorf("reading an instant into %T", target)
	}
	if raw == nil {
		*into = nil
		return nil
	}
	at, err := readInstant(raw)
	*into = &at
	return err
}

// readInstant reads the binary form of an instant. Infinity is none.
func readInstant(raw []byte) (time.Time, error) {
	if len(raw) != 8 {
		return time.Time{}, fmt.Errorf("reading an instant of %d bytes instead of 8", len(raw))
	}
	micros := int64(binary.BigEndian.Uint64(raw)) //nolint:gosec // Two's complement is what it is.
	if micros == math.MaxInt64 || micros == math.MinInt64 {
		return time.Time{}, errors.New("reading an instant: infinity is none")
	}
	return time.UnixMicro(micros + epoch).UTC(), nil
}

// instantsInUTC registers the codec with a connection, for arrays as well.
func instantsInUTC(m *pgtype.Map) {
	instant := &pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: instants{&pgtype.TimestamptzCodec{ScanLocation: time.UTC}},
	}
	m.RegisterType(instant)
	m.RegisterType(&pgtype.Type{
		Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID, Codec: &pgtype.ArrayCodec{ElementType: instant},
	})
}
