package untrusted_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner/untrusted"
)

func TestStorableTextIsValidJSONB(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"as it is":                  {`{"b":[1,2.5,true,null],"a":"x < y"}`, `{"a":"x < y","b":[1,2.5,true,null]}`},
		"a number beyond all":       {`{"n":1e200000}`, `"{\"n\":1e200000}"`},
		"a number beyond float64":   {`-1e309`, `"-1e309"`},
		"the largest":               {`1.7976931348623157e308`, `1.7976931348623157e+308`},
		"a number next to none":     {`1e-999999`, `0`},
		"NUL spelled":               {`{"a":"x\u0000y"}`, `{"a":"xy"}`},
		"NUL in a name":             {`{"a\u0000b":1}`, `{"ab":1}`},
		"NUL as it stands":          {"{\"a\":\"x\x00y\"}", `"{\"a\":\"xy\"}"`},
		"half a pair":               {`["\ud800"]`, `[""]`},
		"the other half, in a name": {`{"\uDC00k":1}`, `{"k":1}`},
		"the halves exchanged":      {`["\udc00\ud800!"]`, `["!"]`},
		"a whole pair":              {`["\ud83d\ude00"]`, `["😀"]`},
		"not UTF-8":                 {"[\"a\xffb\"]", `["ab"]`},
		"no JSON":                   {"interval=30\nor so", `"interval=30 or so"`},
		"no JSON with a half":       {`x \ud800 \u0000`, `"x \\ud800 \\u0000"`},
		"nothing":                   {"", `""`},
		"too long":                  {`{"a":"` + strings.Repeat("ä", 100) + `"}`, `"{\"a\":\"` + strings.Repeat("ä", 27) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := untrusted.Storable(c.text, 66)
			require.Equal(t, c.want, string(got))
			require.True(t, json.Valid(got))
		})
	}
	for _, text := range []string{strings.Repeat(`"`, 5000), strings.Repeat("\\", 1500), strings.Repeat("[", 1999), strings.Repeat("\x00", 9)} {
		got := untrusted.Storable(text, 2000)
		require.True(t, json.Valid(got))
		require.LessOrEqual(t, len(got), 2000)
	}
}
