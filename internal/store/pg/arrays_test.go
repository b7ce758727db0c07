package pg

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/devpg/devpgtest"
)

// TestFastArrayEncodingEqualsTheDrivers compares the encoded bytes with those of the driver.
func TestFastArrayEncodingEqualsTheDrivers(t *testing.T) {
	t.Parallel()
	driver, quick := pgtype.NewMap(), pgtype.NewMap()
	instantsInUTC(quick)
	quickArrays(quick)
	instant := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(time.Time{}.UnixMicro(), 253_402_300_799_999_999).Draw(t, "at")).UTC()
	})
	id := rapid.Custom(func(t *rapid.T) [16]byte { return [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")) })
	raw := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "raw")
	})
	for name, value := range map[string]*rapid.Generator[any]{
		"_uuid": lists(id), "_timestamptz": lists(instant), "_text": lists(rapid.String()), "_bytea": lists(raw), "_bool": lists(rapid.Bool()),
		"_int2": lists(rapid.Int16()), "_int4": lists(rapid.Int32()), "_int8": lists(rapid.Int64()),
	} {
		known, ok := driver.TypeForName(name)
		require.True(t, ok)
		rapid.Check(t, func(rt *rapid.T) {
			list := value.Draw(rt, name)
			if _, is := quick.PlanEncode(known.OID, pgtype.BinaryFormatCode, list).(pgtype.Codec); !is { // The driver's plans are no codecs.
				rt.Fatalf("%T of %s is not encoded quickly", list, name)
			}
			want, err := driver.Encode(known.OID, pgtype.BinaryFormatCode, list, []byte("before"))
			require.NoError(rt, err)
			got, err := quick.Encode(known.OID, pgtype.BinaryFormatCode, list, []byte("before"))
			require.NoError(rt, err)
			require.Equal(rt, want, got)
		})
	}
}

// TestArraysOfAConnectionDoNotMix sends arrays that are smaller than a connection's buffer, that
// fill it, and that exceed it, in sequence and concurrently. Each comes back unchanged.
func TestArraysOfAConnectionDoNotMix(t *testing.T) {
	t.Parallel()
	conn := prepared(t)
	const echo = "SELECT $1::int8[], $2::text, $3::text[]"
	size := rapid.SampledFrom([]int{0, 1, 10, 100, 1000, 12_000, 40_000})
	rapid.Check(t, func(rt *rapid.T) {
		batch, round := &pgx.Batch{}, rapid.Int64().Draw(rt, "round")
		for n := range rapid.IntRange(1, 5).Draw(rt, "statements") {
			numbers, texts := make([]int64, size.Draw(rt, "numbers")), make([]string, size.Draw(rt, "texts"))
			for i := range numbers {
				numbers[i] = round + int64(n+i)
			}
			for i := range texts {
				texts[i] = strconv.Itoa(n - i)
			}
			between := strings.Repeat("x", rapid.SampledFrom([]int{0, 5000}).Draw(rt, "between"))
			check := func(row pgx.Row) error {
				var gotNumbers []int64
				var gotBetween string
				var gotTexts []string
				if err := row.Scan(&gotNumbers, &gotBetween, &gotTexts); err != nil {
					return err
				}
				if !slices.Equal(numbers, gotNumbers) || between != gotBetween || !slices.Equal(texts, gotTexts) {
					rt.Errorf("%d numbers or %d texts came back as others", len(numbers), len(texts))
				}
				return nil
			}
			batch.Queue(echo, numbers, between, texts).QueryRow(check)
			require.NoError(rt, check(conn.QueryRow(t.Context(), echo, numbers, between, texts)))
		}
		require.NoError(rt, conn.SendBatch(t.Context(), batch).Close())
	})
}

// lists draws short lists, empty ones among them.
func lists[T any](of *rapid.Generator[T]) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(of, 0, 5).Draw(t, "list") })
}

func TestInstantsComeBack(t *testing.T) {
	t.Parallel()
	conn := prepared(t)
	for _, text := range []string{"0001-01-01 00:00:00Z", "1999-12-31 23:59:59.999999Z", "2026-01-02 03:04:05.678Z", "9999-12-31 00:00:00Z"} {
		want, err := time.Parse("2006-01-02 15:04:05.999999Z07:00", text)
		require.NoError(t, err)
		var at time.Time
		var nullable, none *time.Time
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT $1::timestamptz, $1::timestamptz, NULL::timestamptz", want).Scan(&at, &nullable, &none))
		require.Equal(t, want.UTC(), at)
		require.Equal(t, &at, nullable)
		require.Nil(t, none)
	}
	var at time.Time
	require.Error(t, conn.QueryRow(t.Context(), "SELECT 'infinity'::timestamptz").Scan(&at))
	require.Error(t, conn.QueryRow(t.Context(), "SELECT NULL::timestamptz").Scan(&at))
}

// prepared returns a connection as those of the store are.
func prepared(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	require.NoError(t, prepare(t.Context(), conn))
	return conn
}
