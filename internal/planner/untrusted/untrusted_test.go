package untrusted_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/planner/untrusted"
)

func TestSecretsAreRemoved(t *testing.T) {
	t.Parallel()
	const canary = "correct horse"
	for name, text := range map[string]string{
		"member":             `{"password":"correct horse battery"}`,
		"member, cut":        `{"a":[1,2],"password":"correct horse bat`,
		"member, spelled":    `{"p\u0061ssword":"correct horse"}`,
		"spelled and cut":    `{"p\u0061ssword":"correct horse`,
		"object":             `{"credentials":{"user":"correct horse"}}`,
		"list":               `{"cookies":["correct horse"]}`,
		"deep":               `{"a":[{"b":{"client_secret":"correct horse"}}]}`,
		"named":              `{"headers":[{"name":"X-Api-Key","value":"correct horse"}]}`,
		"escaped quote":      `{"secret":"a\"correct horse"}`,
		"quoted JSON":        `{"log":"{\"apiKey\":\"correct horse\"}"}`,
		"quoted JSON, cut":   `{"log":"{\"apiKey\":\"correct horse`,
		"capitals":           `{"PASSPHRASE":"correct horse"}`,
		"a word with spaces": `{"Access Key":"correct horse"}`,
		"element":            `<a><password>correct horse</password></a>`,
		"of a namespace":     `<ns:Password type="plain">correct horse</ns:Password>`,
		"with elements":      `<credentials><user>a</user><word>correct horse</word></credentials>`,
		"within itself":      `<token><token>a</token><token/>correct horse</token>`,
		"of another name":    `<secret><secrets></secrets>correct horse</secret>`,
		"section":            `<secret><![CDATA[a</secret>correct horse]]></secret>`,
		"section, cut":       `<secret><![CDATA[a</secret>correct horse`,
		"element, cut":       `<a><password>correct horse bat`,
		"escaped element":    `<log>&lt;password&gt;correct horse&lt;/password&gt;</log>`,
		"quoted element":     `{"log":"<password>correct horse<\/password>"}`,
		"attribute":          `<a name="b" token="correct horse">`,
		"setting":            `<add key="ApiKey" value="correct horse"/>`,
		"setting, turned":    `<add value='correct horse' key='ApiKey'/>`,
		"setting, quoted":    `{"log":"<add key=\"ApiKey\" value=\"correct horse\"/>"}`,
		"entry":              `<entry key="db.password">correct horse</entry>`,
		"field of a form":    `<input type="hidden" name="csrf_token" value="correct horse">`,
		"meta":               `<meta name="csrf-token" content="correct horse">`,
	} {
		clean, _ := untrusted.Clean(text, 4096)
		require.NotContains(t, clean, canary, name)
		require.Contains(t, clean, untrusted.Redacted, name)
	}
}

func TestSecretsAreRecognisedByTheirForm(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
		"sk-proj-abcdefghijklmnop", "sk_live_4eC39HqLyjWDarjt", "AKIAIOSFODNN7EXAMPLE", "ghp_16C7e42F292c6912E7", "xoxb-1234-5678-abcdef",
		"AIzaSyA-abcdefghijklmnopqrstuvwx", "rbt_abcdefghijklmnopqr", "whsec_MfKQ9r8GKYqrTwjUPD8", "d41d8cd98f00b204e9800998ecf8427e",
		"dGhpcyBpcyBhIGJhc2U2NCBwYXlsb2FkIHdpdGggMTIz",
	} {
		for _, text := range []string{secret, `{"note":"` + secret + `"}`, "see " + secret + ".", "a=" + secret + "&b=1"} {
			clean, _ := untrusted.Clean(text, 4096)
			require.NotContains(t, clean, secret[6:], text)
		}
	}
	for text, secret := range map[string]string{
		"postgres://rubato:hunter2@db/rubato":      "hunter2",
		"Authorization: Bearer abc.def.ghi":        "abc.def",
		"Authorization: Basic dXNlcjpwYXNz":        "dXNlcjpw",
		"set-cookie: sid=31d4d96e407aad42; Path=/": "31d4d96e",
		"?api_key=hunter2&x=1":                     "hunter2",
		"DB_PASSWORD=hunter2":                      "hunter2",
		"{\"pin\": 1234}":                          "1234",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----": "MIIE",
		"-----BEGIN PRIVATE KEY-----\nMIIEcut":                                      "MIIE",
	} {
		clean, _ := untrusted.Clean(text, 4096)
		require.NotContains(t, clean, secret, text)
	}
}

func TestReadableTextIsKept(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{ "queue": {"depth": 120, "status": "busy"}, "tokens_used": 512, "ok": true }`: `{"ok":true,"queue":{"depth":120,"status":"busy"},"tokens_used":512}`,
		"rubato_claims_claimed_total 12\n":                                              "rubato_claims_claimed_total 12",
		`<tokens>512</tokens><token></token><auth>false</auth><sid/><q token="">9</q>`:  `<tokens>512</tokens><token></token><auth>false</auth><sid/><q token="">9</q>`,
		`<token>a<token/></token><b>c</b>`:                                              `<token>[redacted]</token><b>c</b>`,
		`<input name="password" type="password"> a < b && c <key`:                       `<input name="password" type="password"> a < b && c <key`,
		"status: degraded\n\n  since 12:30":                                             "status: degraded since 12:30",
		`{"next_run":"2026-11-21T22:30:00Z","big":12345678901234567890}`:                `{"big":12345678901234567890,"next_run":"2026-11-21T22:30:00Z"}`,
		"Größe: 12 €, 日本語, ∑":                                                           "Größe: 12 €, 日本語, ∑",
	} {
		clean, cut := untrusted.Clean(text, 4096)
		require.Equal(t, want, clean)
		require.False(t, cut)
	}
}

func TestInvisibleCharactersAreRemoved(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"zero width":          "ig\u200bno\u200cre\u200d\ufeff",
		"directions":          "\u202eignore\u202c\u2066\u2069",
		"tags":                "ignore\U000E0069\U000E0067\U000E006E",
		"variation selectors": "ignore\ufe01\U000E0101",
		"controls":            "\x00ig\x1bno\x7fre\u0085",
		"private use":         "ignore\ue000\U000F0001",
		"not UTF-8":           "ig\xffno\xc3re",
		"drawn as nothing":    "ignore\u3164\u2800\u115f",
		"escaped":             `ig\u200bno\u001bre`,
	} {
		clean, _ := untrusted.Clean(text, 4096)
		require.Equal(t, "ignore", clean, name)
	}
	clean, _ := untrusted.Clean("\"a\\u001b[31mb\\u200b\"", 4096)
	require.Equal(t, `"a[31mb"`, clean)
}

func TestTextIsCutBetweenCharactersAfterRedaction(t *testing.T) {
	t.Parallel()
	clean, cut := untrusted.Clean(strings.Repeat("é", 3000), 4095)
	require.True(t, cut)
	require.Len(t, clean, 4094)
	clean, cut = untrusted.Clean("ok password=hunter2hunter2", 14)
	require.True(t, cut)
	require.NotContains(t, clean, "hu")
	clean, cut = untrusted.Clean("anything", -1)
	require.True(t, cut)
	require.Empty(t, clean)
}

func TestCleanIsBoundedVisibleAndIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`\{"[a-z_]{0,12}":("[a-zA-Z0-9 \\/]{0,40}"|[0-9]{1,5})\}?`),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		limit := rapid.IntRange(0, 200).Draw(t, "limit")
		clean, _ := untrusted.Clean(text, limit)
		require.LessOrEqual(t, len(clean), limit)
		require.True(t, utf8.ValidString(clean))
		require.Equal(t, clean, untrusted.Visible(clean)+strings.Repeat(" ", len(clean)-len(untrusted.Visible(clean))), "only a space at the cut may be left over")
	})
}

func TestLongTextIsCutBeforeItIsScannedAndBetweenWords(t *testing.T) {
	t.Parallel()
	secret := "hunter2" + strings.Repeat("h", 64)
	clean, cut := untrusted.Clean(strings.Repeat(" ", untrusted.MaxText-40)+"token="+secret, 100)
	require.True(t, cut)
	require.Empty(t, clean)
	clean, cut = untrusted.Clean(strings.Repeat("x", 10*untrusted.MaxText), 100)
	require.True(t, cut)
	require.Empty(t, clean)
}

func BenchmarkClean(b *testing.B) {
	for name, text := range map[string]string{
		"json":    `{"items":[` + strings.Repeat(`{"id":1,"state":"waiting","token":"x"},`, 100) + `{}]}`,
		"markup":  strings.Repeat("<token><a href='&lt;'>", untrusted.MaxText/21),
		"letters": strings.Repeat("a", untrusted.MaxText-1) + " ",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				untrusted.Clean(text, 4096)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add(`{"password":"x"}`, 100)
	f.Add("token: \\u0061\\ud800", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		clean, _ := untrusted.Clean(text, limit)
		if len(clean) > max(limit, 0) || !utf8.ValidString(clean) {
			t.Fatalf("%q", clean)
		}
	})
}
