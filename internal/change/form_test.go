package change_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/budget"
	"rubato/internal/change"
	"rubato/internal/jsonpath"
	"rubato/internal/runs"
)

// form parses paths that are right.
func form(t require.TestingT, key, ignore []string) change.Form {
	f, bad := change.Parse(key, ignore)
	require.Empty(t, bad)
	return f
}

// digest returns the digest of a body within a full budget.
func digest(f change.Form, body string) uint64 {
	d, _ := f.Digest([]byte(body), budget.New(nil))
	return d
}

// TestDigestsCompareMeaning has bodies that are the same for a form, and bodies that are not.
func TestDigestsCompareMeaning(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		key, ignore []string
		a, b        string
		same        bool
	}{
		"OrderOfMembers":      {nil, nil, `{"a":1,"b":[2,{"c":3,"d":4}]}`, ` { "b":[2,{"d":4,"c":3}] , "a":1 }`, true},
		"NotationOfNumbers":   {nil, nil, `[1,10,-0.5,0]`, `[1.0,1e1,-50e-2,-0.0e7]`, true},
		"LargeNumbers":        {nil, nil, `[9007199254740993]`, `[9007199254740992]`, false},
		"OrderOfElements":     {nil, nil, `[1,2]`, `[2,1]`, false},
		"TextIsNoNumber":      {nil, nil, `["1"]`, `[1]`, false},
		"NullIsNotAbsent":     {nil, nil, `{"a":null}`, `{}`, false},
		"EscapesMeanTheSame":  {nil, nil, `["\u0041\/"]`, `["A/"]`, true},
		"BordersOfTexts":      {nil, nil, `["ab","c"]`, `["a","bc"]`, false},
		"BordersOfLists":      {nil, nil, `[[1],2]`, `[[1,2]]`, false},
		"IgnoredMember":       {nil, []string{"$.ts"}, `{"a":1,"ts":1}`, `{"a":1,"ts":2}`, true},
		"IgnoredIsAbsent":     {nil, []string{"$.ts"}, `{"a":1,"ts":1}`, `{"a":1}`, true},
		"IgnoredAnywhere":     {nil, []string{"$..ts"}, `{"l":[{"ts":1,"m":{"ts":[1]}}]}`, `{"l":[{"m":{}}]}`, true},
		"IgnoredElement":      {nil, []string{"$.l[1]"}, `{"l":[1,2,3]}`, `{"l":[1,9,3]}`, true},
		"IgnoredInElements":   {nil, []string{"$.l[*].id"}, `{"l":[{"id":1,"v":1},{"id":2,"v":2}]}`, `{"l":[{"id":3,"v":1},{"v":2}]}`, true},
		"OthersCount":         {nil, []string{"$.ts"}, `{"a":1,"ts":1}`, `{"a":2,"ts":1}`, false},
		"IgnoredTwice":        {nil, []string{"$.m", "$.m.ts", "$[?@.m == 1]"}, `{"m":{"ts":1}}`, `{"m":{"ts":2}}`, true},
		"AllIgnored":          {nil, []string{"$"}, `{"a":1}`, `{"b":1}`, true},
		"KeyAlone":            {[]string{"$.v"}, nil, `{"v":1,"x":1}`, `{"x":2,"v":1}`, true},
		"KeyCounts":           {[]string{"$.v"}, nil, `{"v":1}`, `{"v":2}`, false},
		"KeyOfMany":           {[]string{"$.l[*].v"}, nil, `{"l":[{"v":1,"t":1},{"v":2}]}`, `{"l":[{"v":1},{"v":2,"t":2}]}`, true},
		"KeysDoNotMix":        {[]string{"$.a", "$.b"}, nil, `{"a":1}`, `{"b":1}`, false},
		"KeyWithoutIgnored":   {[]string{"$.m"}, []string{"$..ts"}, `{"m":{"v":1,"ts":1}}`, `{"m":{"v":1,"ts":2}}`, true},
		"TextByteByByte":      {nil, nil, "hello", "hello ", false},
		"BrokenByteByByte":    {nil, []string{"$.ts"}, `{"ts":1`, `{"ts":2`, false},
		"TwoDocuments":        {nil, nil, `{"a":1,"b":2} {}`, `{"b":2,"a":1} {}`, false},
		"EmptyObjectAndArray": {nil, nil, `{}`, `[]`, false},
	} {
		f := form(t, tc.key, tc.ignore)
		require.Equal(t, tc.same, digest(f, tc.a) == digest(f, tc.b), name)
		keyed := f.Keyed([]byte("key"))
		require.Equal(t, tc.same, digest(keyed, tc.a) == digest(keyed, tc.b), name)
		require.NotEqual(t, digest(f, tc.a), digest(keyed, tc.a), "%s: a digest with a key is another", name)
		require.NotEqual(t, digest(f.Keyed([]byte("kex")), tc.a), digest(keyed, tc.a), name)
	}
	require.Zero(t, digest(change.Form{}, ""))
	require.NotZero(t, digest(form(t, nil, []string{"$"}), `{}`), "an answer of which all is ignored is one")
}

func TestBadPathsAreNamed(t *testing.T) {
	t.Parallel()
	_, bad := change.Parse([]string{"$.a", "a"}, []string{"$[?@..a]"})
	require.Len(t, bad, 2)
	require.Equal(t, []int{0, 1, 1, 0}, []int{bad[0].List, bad[0].Index, bad[1].List, bad[1].Index})
	require.NotEmpty(t, bad[0].Message)
}

// TestDigestIgnoresOrderAndNotation encodes drawn documents twice: the second time with other
// orders of members and other notations of numbers.
func TestDigestIgnoresOrderAndNotation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := drawValue(t, 0)
		plain, other := encoded(doc, false), encoded(doc, true)
		require.Equal(t, digest(change.Form{}, plain), digest(change.Form{}, other), "%s %s", plain, other)
		ignoring := form(t, nil, []string{"$..ts"})
		noisy := encoded(withNoise(t, doc), true)
		require.Equal(t, digest(ignoring, plain), digest(ignoring, noisy), "%s %s", plain, noisy)
	})
}

// object is a JSON object with an order.
type object []pair

type pair struct {
	name  string
	value any
}

func drawValue(t *rapid.T, level int) any {
	kinds := 4
	if level < 4 {
		kinds = 6
	}
	if level == 0 {
		return drawObject(t, level)
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.Int64Range(-1000, 1000).Draw(t, "number")
	case 1:
		return rapid.StringN(0, 4, 20).Draw(t, "text")
	case 2:
		return rapid.Bool().Draw(t, "bool")
	case 3:
		return nil
	case 4:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawValue(t, level+1)
		}
		return list
	default:
		return drawObject(t, level)
	}
}

func drawObject(t *rapid.T, level int) object {
	var o object
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c d", "e'\"", "é"}), 0, 4, rapid.ID[string]).Draw(t, "names") {
		o = append(o, pair{name, drawValue(t, level+1)})
	}
	return o
}

// withNoise adds a member ts to objects.
func withNoise(t *rapid.T, value any) any {
	switch v := value.(type) {
	case object:
		var o object
		for _, p := range v {
			o = append(o, pair{p.name, withNoise(t, p.value)})
		}
		if rapid.Bool().Draw(t, "noise") {
			o = append(o, pair{"ts", rapid.Int64().Draw(t, "ts")})
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = withNoise(t, v[i])
		}
		return list
	}
	return value
}

// encoded returns the JSON of a value; other reverses objects and writes numbers with an exponent.
func encoded(value any, other bool) string {
	var parts []string
	switch v := value.(type) {
	case object:
		for _, p := range v {
			name, _ := json.Marshal(p.name)
			member := string(name) + ":" + encoded(p.value, other)
			if other {
				parts = append([]string{member}, parts...)
			} else {
				parts = append(parts, member)
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, encoded(element, other))
		}
		return "[" + strings.Join(parts, " , ") + "]"
	case int64:
		if other {
			return fmt.Sprintf("%d.00e0", v)
		}
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// TestHostileAnswersTakeBoundedWork ends early where the budget is spent, and then compares bytes.
func TestHostileAnswersTakeBoundedWork(t *testing.T) {
	t.Parallel()
	body := "[" + strings.Repeat("[1],", jsonpath.MaxValues/3) + "1]"
	hostile := make([]string, change.MaxPaths)
	for i := range hostile {
		hostile[i] = "$..*..*..*..*"
	}
	b := budget.New(nil)
	got, members := form(t, nil, hostile).Digest([]byte(body), b)
	require.ErrorIs(t, b.Err(), budget.ErrSpent)
	require.Equal(t, digest(change.Form{}, "x"+body[1:]) == got, false)
	require.Nil(t, members)
	_, members = change.Form{}.Digest([]byte(body), budget.Ended(budget.ErrEnded))
	require.Nil(t, members)
}

// TestMembersNameEveryPlace lists the members of a document by path.
func TestMembersNameEveryPlace(t *testing.T) {
	t.Parallel()
	paths := func(f change.Form, body string) (list []string) {
		_, members := f.Digest([]byte(body), budget.New(nil))
		for _, m := range members {
			list = append(list, m.Path)
			_, err := jsonpath.Parse(m.Path)
			require.NoError(t, err, m.Path)
		}
		return list
	}
	const body = `{"a":{"b c":1,"d'\"":[]},"l":[{"id":1},{"id":2,"t":{}}],"é":null}`
	require.Equal(t, []string{`$.a["b c"]`, `$.a["d'\""]`, "$.l[*].id", "$.l[*].t", `$["é"]`}, paths(change.Form{}, body))
	require.Equal(t, []string{`$.a["b c"]`, `$.a["d'\""]`, "$.l[*].t", `$["é"]`}, paths(form(t, nil, []string{"$..id"}), body))
	require.Nil(t, paths(form(t, []string{"$.a"}, nil), body), "a change key says what matters")
	many := map[string]int{}
	for i := range 257 {
		many[fmt.Sprint("m", i)] = i
	}
	text, err := json.Marshal(many)
	require.NoError(t, err)
	require.Nil(t, paths(change.Form{}, string(text)), "too many")
	deep := strings.Repeat(`{"a":[`, 30) + strings.Repeat("]}", 30)
	require.Len(t, paths(change.Form{}, deep), 1, "deep members belong to their holder")
}

func FuzzDigest(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}],"ts":1e3}`), "$.a[*].b", "$.ts")
	f.Fuzz(func(t *testing.T, body []byte, key, ignore string) {
		form, bad := change.Parse([]string{key}, []string{ignore})
		if len(bad) > 0 {
			form = change.Form{}
		}
		once, members := form.Digest(body, budget.New(nil))
		again, same := form.Digest(body, budget.New(nil))
		require.Equal(t, once, again)
		require.Equal(t, members, same)
		require.Equal(t, len(body) == 0, once == 0)
		for _, m := range members {
			_, err := jsonpath.Parse(m.Path)
			require.NoError(t, err, m.Path)
		}
	})
}

// TestDigestsOfTwoFormsDoNotCompare has forms that differ in one respect each, and two notations of
// one form.
func TestDigestsOfTwoFormsDoNotCompare(t *testing.T) {
	t.Parallel()
	forms := []change.Form{
		{},
		change.Form{}.Keyed([]byte("k")),
		form(t, nil, []string{"$.a"}),
		form(t, nil, []string{"$.b"}),
		form(t, nil, []string{"$.a", "$.b"}),
		form(t, []string{"$.a"}, nil),
		form(t, []string{"$.a", "$.b"}, nil),
		form(t, []string{"$.b", "$.a"}, nil),
		form(t, []string{"$.a"}, []string{"$.b"}),
	}
	for i, f := range forms {
		for j, g := range forms {
			for _, body := range []string{`{"a":1,"b":2}`, "text"} {
				require.Equal(t, i == j, runs.Comparable(digest(f, body), digest(g, body)), "%d %d", i, j)
			}
			require.True(t, runs.Comparable(digest(f, `{"a":1}`), digest(f, `{"a":2}`)))
		}
	}
	whole := form(t, nil, []string{"$.a", "$.b"})
	require.Equal(t, digest(whole, `{"c":1}`), digest(change.Form{}.Ignoring([]string{"$.b"}).Ignoring([]string{"$.a"}), `{"c":1}`))
}
