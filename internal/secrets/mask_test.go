package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMaskHidesValuesInEveryFormInWhichTheyComeBack(t *testing.T) {
	t.Parallel()
	value := "p\"ss/w\nrd+é=<can & ary>"
	mask := NewMask(value, "short")
	quoted, err := json.Marshal(value)
	require.NoError(t, err)
	var marked bytes.Buffer
	require.NoError(t, xml.EscapeText(&marked, []byte(value)))
	for _, form := range []string{
		value, string(quoted), url.QueryEscape(value), url.PathEscape(value),
		strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), marked.String(), html.EscapeString(value),
		`p\"ss/w\nrd+é=<can & ary>`,
		base64.StdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)),
	} {
		body := []byte("before " + form + " between " + form + " after short")
		hidden := string(mask.Body(body, false))
		require.NotContains(t, hidden, strings.Trim(form, `"`))
		require.Contains(t, hidden, "before ")
		require.Contains(t, hidden, " after short", "what is short is not searched for")
		require.Equal(t, hidden, mask.Text(string(body)))
	}
}

// TestNothingOfACutValueIsLeft: wherever a body is cut, no 8 bytes of the value are left at its end.
func TestNothingOfACutValueIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z0-9]{12,40}`).Draw(t, "value")
		before := rapid.StringMatching(`[A-Z ]{0,30}`).Draw(t, "before")
		kept := rapid.IntRange(minMasked, len(value)-1).Draw(t, "kept")

		hidden := string(NewMask(value).Body([]byte(before+value[:kept]), true))

		require.Equal(t, before+masked, hidden)
		require.Equal(t, hidden, NewMask(value).Text(before+value[:kept]))
		require.Equal(t, `"`+hidden+`" and more`, NewMask(value).Text(`"`+before+value[:kept]+`" and more`))
	})
}

// TestNothingOfAValueIsLeftWhereATailBegins is the same for the other end.
func TestNothingOfAValueIsLeftWhereATailBegins(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-z0-9]{12,40}`).Draw(t, "value")
		after := rapid.StringMatching(`[A-Z ]{0,30}`).Draw(t, "after")
		kept := rapid.IntRange(minMasked, len(value)-1).Draw(t, "kept")

		hidden := string(NewMask(value).Tail([]byte(value[len(value)-kept:] + after + value)))

		require.Equal(t, masked+after+masked, hidden)
	})
}

func TestLongerValuesAreMaskedFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, "x [secret] y", NewMask("12345678", "1234567890").Text("x 1234567890 y"))
}

func TestNothingIsMaskedWithoutValues(t *testing.T) {
	t.Parallel()
	mask := NewMask("", "1234567")
	require.Nil(t, mask)
	body := []byte("1234567")
	require.Equal(t, body, mask.Body(body, true))
	require.Equal(t, body, mask.Tail(body))
	require.Equal(t, "1234567", mask.Text("1234567"))
}
