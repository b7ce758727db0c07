package request

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// TestDigestsCoverWhatRedactionHides classifies answers that differ in a hidden member, in an
// ignored one, and in the order of members.
func TestDigestsCoverWhatRedactionHides(t *testing.T) {
	t.Parallel()
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.Ignore = "n", "https://target.example/", []string{"$.ts"}
	spec.Redact = []endpoints.RedactRule{{JSONPath: "$.pin"}}
	outcome := func(key, body string) runs.Outcome {
		target, err := NewTarget([16]byte{1}, &spec)
		require.NoError(t, err)
		target.SetKey([]byte(key))
		o, _ := runSecrets{}.classify(t.Context(), &target, Exchange{Answer: egress.Response{StatusCode: 200, Body: []byte(body)}, At: start})
		return o
	}
	base := outcome("a", `{"pin":1,"ts":1}`)
	require.Equal(t, base.BodyDigest, outcome("a", `{"ts":2,"pin":1.0}`).BodyDigest)
	other := outcome("a", `{"pin":2,"ts":1}`)
	require.NotEqual(t, base.BodyDigest, other.BodyDigest, "redaction hides no change")
	require.JSONEq(t, string(base.Body), string(other.Body))
	require.NotEqual(t, base.BodyDigest, outcome("b", `{"pin":1,"ts":1}`).BodyDigest, "each endpoint has its own key")
	spec.Redact = nil
	require.Equal(t, outcome("a", `{"pin":1}`).BodyDigest, outcome("b", `{"pin":1}`).BodyDigest, "the whole answer is stored")
}
