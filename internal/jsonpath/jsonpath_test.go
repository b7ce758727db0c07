package jsonpath_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/budget"
	"rubato/internal/jsonpath"
)

const store = `{"store":{"book":[{"category":"reference","author":"Rees","price":8.95},{"category":"fiction","author":"Waugh","price":12.99},
{"category":"fiction","author":"Melville","isbn":"0-553","price":8.99}],"bicycle":{"color":"red","price":399}},"big":9007199254740993}`

// find returns the values at a path, with a budget of its own.
func find(p *jsonpath.Path, doc *jsonpath.Document) ([]any, error) {
	found := []any{}
	err := p.Each(doc, budget.New(nil), func(value any) bool { found = append(found, value); return true })
	return found, err
}

// TestPathsFollowRFC9535 has the examples of RFC 9535, and the corners of its selectors.
func TestPathsFollowRFC9535(t *testing.T) {
	t.Parallel()
	doc, err := jsonpath.Read([]byte(store), nil)
	require.NoError(t, err)
	for path, want := range map[string]string{
		"$.store.bicycle.color":                                      `["red"]`,
		"$['store']['bicycle']['color']":                             `["red"]`,
		"$.store.book[*].author":                                     `["Rees","Waugh","Melville"]`,
		"$..author":                                                  `["Rees","Waugh","Melville"]`,
		"$.store.book[-1].author":                                    `["Melville"]`,
		"$.store.book[0,2].author":                                   `["Rees","Melville"]`,
		"$.store.book[:2].author":                                    `["Rees","Waugh"]`,
		"$.store.book[::-1].author":                                  `["Melville","Waugh","Rees"]`,
		"$.store.book[1:99:9007199254740991].author":                 `["Waugh"]`,
		"$.store.book[?@.isbn].author":                               `["Melville"]`,
		"$.store.book[?@.price < 10].author":                         `["Rees","Melville"]`,
		"$.store.book[?@.price < 10 && @.category=='fiction'].price": `[8.99]`,
		"$.store.book[?length(@.author) > 5].author":                 `["Melville"]`,
		"$.store.book[?length(@.isbn) > 4].author":                   `["Melville"]`,
		"$..price":            `[399,8.95,12.99,8.99]`,
		"$.big":               `[9007199254740993]`,
		"$.nothing":           `[]`,
		"$.store.book.author": `[]`,
		"$.store.book[7]":     `[]`,
		"$.store.book[-7]":    `[]`,
		"$.big.more":          `[]`,
	} {
		p, err := jsonpath.Parse(path)
		require.NoError(t, err, path)
		require.Equal(t, path, p.String())
		found, err := find(p, doc)
		require.NoError(t, err, path)
		raw, err := json.Marshal(found)
		require.NoError(t, err)
		require.Equal(t, want, string(raw), path)
	}
}

// TestBlankSpaceBetweenConditionsMeansNothing has each way in which RFC 9535 (2.3.5.1) lets blank
// space stand around && and ||.
func TestBlankSpaceBetweenConditionsMeansNothing(t *testing.T) {
	t.Parallel()
	doc, err := jsonpath.Read([]byte(`[{"a":1,"b":2,"c":3,"d":4},{"a":1,"b":2,"c":0,"d":4},{"a":0,"b":0,"c":3,"d":4}]`), nil)
	require.NoError(t, err)
	for want, conditions := range map[string][]string{
		`[1]`: {
			"@.a==1&&@.b==2&&@.c==3", "@.a==1 && @.b==2 && @.c==3", "@.a == 1 &&@.b == 2 &&@.c == 3", "@.a==1\t&&\n@.b==2\r&&  @.c==3",
			"@.a==1 && @.b==2 && @.c==3 && @.d==4", "(@.a==1 && @.b==2 && @.c==3) ", "@.a && @.a==1 && !(@.c==0) && length('x')==1",
		},
		`[1,0]`: {
			"@.a==1 && @.b==2 && @.c==3 || @.c==9 || @.c==3 && @.d==4 && @.a==0", "@.a==9 || @.c==3 || @.b==9 || @.b==8",
			"@.c==3 && ( @.a==1 || @.a==9 || @.a==0 ) && @.d==4 && @.d!=5",
		},
	} {
		for _, condition := range conditions {
			p, err := jsonpath.Parse("$[?" + condition + "].a")
			require.NoError(t, err, condition)
			found, err := find(p, doc)
			require.NoError(t, err, condition)
			raw, err := json.Marshal(found)
			require.NoError(t, err)
			require.Equal(t, want, string(raw), condition)
		}
	}
}

func TestRefusedPathsGetCorrection(t *testing.T) {
	t.Parallel()
	for path, says := range map[string]string{
		"":                                     "RFC 9535",
		"status":                               "RFC 9535",
		"$.":                                   "RFC 9535",
		"$[?@.a == ]":                          "RFC 9535",
		"$[?nofunc(@.a)]":                      "RFC 9535",
		"$[?@..a]":                             "single places below @",
		"$[?@.*]":                              "single places below @",
		"$[?@[0:2]]":                           "single places below @",
		"$[?@.a == $.b]":                       "single places below @",
		"$[?@[?@.a]]":                          "single places below @",
		"$[?count(@.*) > 1]":                   "single places below @",
		"$[?match(@.a, 'b')]":                  "single places below @",
		"$[?!search(@.a, @.b)]":                "single places below @",
		"$" + strings.Repeat(".a", 33):         "at most 32 steps",
		"$." + strings.Repeat("a", 1024):       "at most 1024 bytes",
		"$[" + strings.Repeat("(", 500) + "1]": "RFC 9535",
	} {
		_, err := jsonpath.Parse(path)
		require.ErrorContains(t, err, says, path)
	}
	_, err := jsonpath.Parse(`$[?@['..$*:'] == "?.."]`)
	require.NoError(t, err, "texts are no places")
}

func TestReplaceHidesEveryPlace(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"$..price":                           `{"big":9007199254740993,"store":{"bicycle":{"color":"red","price":"***"},"book":[{"author":"Rees","category":"reference","price":"***"},{"author":"Waugh","category":"fiction","price":"***"},{"author":"Melville","category":"fiction","isbn":"0-553","price":"***"}]}}`,
		"$.store.book":                       `{"big":9007199254740993,"store":{"bicycle":{"color":"red","price":399},"book":"***"}}`,
		"$.store..*":                         `{"big":9007199254740993,"store":{"bicycle":"***","book":"***"}}`,
		"$.store.book[0,1,2,0]['x','price']": `{"big":9007199254740993,"store":{"bicycle":{"color":"red","price":399},"book":[{"author":"Rees","category":"reference","price":"***"},{"author":"Waugh","category":"fiction","price":"***"},{"author":"Melville","category":"fiction","isbn":"0-553","price":"***"}]}}`,
		"$":                                  `"***"`,
	} {
		doc, err := jsonpath.Read([]byte(store), nil)
		require.NoError(t, err)
		p, err := jsonpath.Parse(path)
		require.NoError(t, err)
		n, err := p.Replace(doc, budget.New(nil), "***")
		require.NoError(t, err)
		require.Positive(t, n)
		raw, err := doc.Bytes()
		require.NoError(t, err)
		require.Equal(t, want, string(raw), path)
	}
}

// TestASearchIsBounded has paths that look at far more places than a document has, over the largest
// document.
func TestASearchIsBounded(t *testing.T) {
	t.Parallel()
	doc, err := jsonpath.Read([]byte("["+strings.Repeat("[1],", jsonpath.MaxValues/3)+"1]"), nil)
	require.NoError(t, err)
	for path, bounded := range map[string]bool{
		"$..*..*..*..*": false, "$" + strings.Repeat("[0,0,0,0,0,0,0,0]", 12): false, // Below two levels there is nothing to multiply.
		"$..[?@[0] == 1]..*": false, "$[" + strings.Repeat("*,", 160) + "*]": true, "$[" + strings.Repeat("::1,", 30) + "::1][::1,::1,::1,::1,::1]": true,
		"$[" + strings.Repeat("::1,", 100) + "::1]..*": true,
	} {
		p, err := jsonpath.Parse(path)
		require.NoError(t, err, path)
		b := budget.New(nil)
		err = p.Each(doc, b, func(any) bool { return true })
		require.Equal(t, bounded, errors.Is(err, budget.ErrSpent), path)
		_, err = p.Replace(doc, b, "***")
		require.Equal(t, bounded, errors.Is(err, budget.ErrSpent), "%s: what is spent stays spent", path)
	}
}

// largest is an array of short texts that is a megabyte long, and hostile a path that names each of
// them four times.
var largest = []byte("[" + strings.Repeat(`"abcdefg",`, 95_000) + `"a"]`)

const hostile = "$[::1,::1,::1,::1]"

// allocated returns how many bytes a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestASearchTakesLittleMemory: it holds a place for each level, and the places that are replaced
// in memory that paths share.
func TestASearchTakesLittleMemory(t *testing.T) { //nolint:paralleltest // It counts the memory of the whole process.
	doc, err := jsonpath.Read(largest, nil)
	require.NoError(t, err)
	p, err := jsonpath.Parse(hostile)
	require.NoError(t, err)
	seen := 0
	require.Less(t, allocated(func() {
		require.NoError(t, p.Each(doc, budget.New(nil), func(any) bool { seen++; return true }))
	}), uint64(1<<20))
	require.Equal(t, 4*95_001, seen)
	require.Less(t, allocated(func() {
		for range 32 {
			_, err := p.Replace(doc, budget.New(nil), "***")
			require.ErrorIs(t, err, jsonpath.ErrTooMuch)
		}
	}), uint64(64<<20), "32 searches share the memory of one")
}

// TestASearchEndsWithItsRun: it hears of the end while it searches.
func TestASearchEndsWithItsRun(t *testing.T) {
	t.Parallel()
	doc, err := jsonpath.Read(largest, nil)
	require.NoError(t, err)
	p, err := jsonpath.Parse("$[*]")
	require.NoError(t, err)
	ended, seen := make(chan struct{}), 0
	err = p.Each(doc, budget.New(ended), func(any) bool {
		if seen++; seen == 1000 {
			close(ended)
		}
		return true
	})
	require.ErrorIs(t, err, budget.ErrEnded)
	require.Less(t, seen, 10_000)
}

func TestDocumentsOfStrangersAreRefusedInWords(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", jsonpath.MaxDepth)
	for text, says := range map[string]string{
		"":                           "empty",
		"   ":                        "empty",
		`{"secret": tru`:             "no JSON",
		`{"secret": nope}`:           "no JSON at byte",
		`{} {}`:                      "follows",
		`{}x`:                        "follows",
		deep + "[":                   "64 deep",
		strings.Repeat(`{"a":`, 100): "64 deep",
		"[" + strings.Repeat("1,", jsonpath.MaxValues) + "1]": "100000 values",
	} {
		_, err := jsonpath.Read([]byte(text), nil)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "nope")
	}
	_, err := jsonpath.Read([]byte(deep+strings.Repeat("]", jsonpath.MaxDepth)), nil)
	require.NoError(t, err)
	_, err = jsonpath.Read([]byte(`"`+strings.Repeat(`[{\"`, 1000)+`"`), nil)
	require.NoError(t, err, "what stands in a text is no nesting")
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	doc, err := jsonpath.Read([]byte(`[9223372036854775807, 9223372036854775808, 1.5, 1e400, -0]`), nil)
	require.NoError(t, err)
	require.Equal(t, "[9223372036854775807 9.223372036854776e+18 1.5 +Inf 0]", fmt.Sprint(doc.Plain()))
	raw, err := doc.Bytes()
	require.NoError(t, err)
	require.Equal(t, `[9223372036854775807,9223372036854775808,1.5,1e400,-0]`, string(raw))
}

// TestNumbersCompareByValue has groups of numbers that are the same, each of them greater
// than those before it.
func TestNumbersCompareByValue(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("9", 10_000)
	ranks := [][]json.Number{
		{"-1e99999999999999999999999"},
		{"-1e400"},
		{"-12.5", "-125e-1", "-1.25E+1"},
		{"-12"},
		{"-1e-400"},
		{"0", "-0", "0.000", "0e99999999999999999999999", "-0.0e5"},
		{"1e-99999999999999999999999"},
		{"0.099", "9.9e-2"},
		{"0.1", "100e-3", "0.10"},
		{"0.1000000000000000000001"},
		{"9"},
		{"10", "1e1", "10.000", "0.01e3"},
		{"9007199254740992"},
		{"9007199254740993", "9007199254740993.0"},
		{"10000000000000000000", "1e19", "1e+19"},
		{"10000000000000000001"},
		{json.Number(long)},
		{json.Number(long + ".5")},
		{json.Number(long + "e1"), json.Number(long + "0")},
		{"1e10001"},
		{"1e99999999999999999999999"},
	}
	for i, group := range ranks {
		for j, other := range ranks {
			for _, a := range group {
				for _, b := range other {
					require.Equal(t, cmp.Compare(i, j), jsonpath.Compare(a, b), "%.30s and %.30s", a, b)
				}
			}
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"$.a", "$..a[0]", "$[?@.a == 'b']", "$[1:2:-1]", `$["\u00e9"]`, "$[?length(@.a) > 1]", "$[?value(@.a) == @.b]"} {
		f.Add(path, []byte(store))
	}
	f.Fuzz(func(t *testing.T, path string, text []byte) {
		p, err := jsonpath.Parse(path)
		if err != nil {
			return
		}
		doc, err := jsonpath.Read(text, nil)
		if err != nil {
			return
		}
		if _, err := find(p, doc); err != nil {
			return
		}
		if _, err := p.Replace(doc, budget.New(nil), "***"); err != nil {
			t.Fatal(err)
		}
		raw, err := doc.Bytes()
		if err != nil || !json.Valid(raw) && !bytes.Equal(raw, nil) {
			t.Fatalf("%q %v", raw, err)
		}
	})
}
