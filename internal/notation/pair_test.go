package notation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/notation"
)

func TestAPairIsCutWhereItsNameEnds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"team:shop":     {"team", "shop"},
		"team:":         {"team", ""},
		":shop":         {"", "shop"},
		"a:b:c":         {"a", "b:c"},
		`a\:b:c`:        {"a:b", "c"},
		`a\:b\:c:d\:e`:  {"a:b:c", `d\:e`},
		`a\\:b`:         {`a\`, "b"},
		`c\d:e`:         {`c\d`, "e"},
		"größe: 2 Maß ": {"größe", " 2 Maß "},
	} {
		name, value, found := notation.CutPair(text, ':')
		require.True(t, found, text)
		require.Equal(t, want, [2]string{name, value}, text)
	}
	for _, text := range []string{"", "team", `team\:shop`, `a\`} {
		_, _, found := notation.CutPair(text, ':')
		require.False(t, found, text)
	}
}

func TestAListIsInTheOrderOfItsNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{`a\:b: c`, "team: shop", "tier: "}, notation.ListPairs(map[string]string{"tier": "", "a:b": "c", "team": "shop"}, ": "))
	require.Empty(t, notation.ListPairs(nil, "="))
}

func TestEveryNameIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		separator := rapid.SampledFrom([]byte{':', '='}).Draw(t, "separator")
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a\\:=]{0,8}`))
		name, value := text.Draw(t, "name"), text.Draw(t, "value")
		written := notation.JoinPair(name, string(separator), value)
		gotName, gotValue, found := notation.CutPair(written, separator)
		if !found || gotName != name || gotValue != value {
			t.Fatalf("%q and %q were written as %q and read as %q and %q", name, value, written, gotName, gotValue)
		}
		if !strings.ContainsAny(name, `\`+string(separator)) && !strings.HasPrefix(written, name+string(separator)) {
			t.Fatalf("%q was written as %q", name, written)
		}
	})
}
