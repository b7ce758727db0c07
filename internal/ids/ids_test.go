package ids

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"rubato/internal/errs"
)

func TestIDsSurviveARoundTrip(t *testing.T) {
	t.Parallel()
	kind := Kind{Prefix: "ep_", Noun: "endpoint"}
	id := uuid.MustParse("0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	require.Equal(t, "ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90", kind.String(id))
	got, err := kind.Parse(kind.String(id))
	require.NoError(t, err)
	require.EqualValues(t, id, got)
}

func TestInvalidIDErrorShowsFormat(t *testing.T) {
	t.Parallel()
	const looks = "an endpoint id looks like ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90"
	for text, want := range map[string]string{
		"":    "there is no such endpoint; " + looks,
		"ep_": "there is no such endpoint; " + looks,
		"ep_{0193466f-2a10-7c3e-9d41-5a2f6c7d8e90}":        "there is no such endpoint; " + looks,
		"ep_urn:uuid:0193466f-2a10-7c3e-9d41-5a2f6c7d8e90": "there is no such endpoint; " + looks,
		"run_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90":         "there is no such endpoint; " + looks,
		"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90\n":        "the id cannot be read; " + looks,
		"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e9\xff":       "the id cannot be read; " + looks,
	} {
		_, err := Kind{Prefix: "ep_", Noun: "endpoint"}.Parse(text)
		require.EqualError(t, err, want, "%q", text)
		code := errs.NotFound
		if strings.Contains(want, "read") {
			code = errs.Malformed
		}
		require.Equal(t, code, errs.CodeOf(err), "%q", text)
	}
	_, err := Kind{Prefix: "run_", Noun: "run"}.Parse("run")
	require.ErrorContains(t, err, "a run id looks like run_")
}

func TestFirstSortsBeforeTheIDsOfItsInstant(t *testing.T) {
	t.Parallel()
	id := uuid.Must(uuid.NewV7())
	sec, nsec := id.Time().UnixTime()
	at := time.Unix(sec, nsec)
	before, after := First(at), First(at.Add(time.Millisecond))
	require.Negative(t, bytes.Compare(before[:], id[:]))
	require.Positive(t, bytes.Compare(after[:], id[:]))
}
