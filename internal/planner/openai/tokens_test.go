package openai_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"rubato/internal/planner"
	"rubato/internal/planner/openai"
	"rubato/internal/planner/openai/openaitest"
)

// counted is a text with its token count: the larger one of cl100k_base and o200k_base.
type counted struct {
	text   string
	tokens int64
}

// counts were made with the encoders themselves, in js-tiktoken 1.0.21.
func counts() map[string]counted {
	return map[string]counted{
		"LettersApart": {`a b c d e f g h i j k l m n o p q r s t u v w x y z`, 26},
		"LettersByTwo": {`me lb ey ip zz fr ek bd tb oi eh ab zp wr lh zc xl lu qg kj uj wi bj uh me zz ef fq lb ds ft bu oj ya bm bi wl my zh yb al we vo tw am`, 51},
		"Lower":        {`binepzgnwebpluitojyzgrucoukywlsmfiykzqountiwjesusvgtytdaeynbrncwrpqlfironjrsncclzsqolookjkqyndisbqfqwpzkcngrtuwhrcffhxbo`, 60},
		"Upper":        {`PFPJXNXPUXKVKWOWJMRWHUMSVEEUCLFRZXFYBQTIXKBCJGJKTEBPUCKIKLIKLTDCMKNIHAHFCXIWKKPZIOMSSZYLCU`, 55},
		"RareUpper":    {`XZZYYYYVKKKJZXVKKYJJQQZQJXWXKJQQQYQVZWXJJQQJYKZYQYKZVQJKQKZV`, 44},
		"RareLower":    {`wvkkzkzwxwvxvwkqxwwxwvqyjxqwjykqyjwvxzzyykwwwyjkxjkwkvkwjwvj`, 41},
		"Mixed":        {`bIbNCPezPBWjqNVZdPahgNjJqSvFJTpyXHBscJjCXDplSCJBZYwywQsMVioGnwDYeWCHViKhaeGeumiWiKnVfbXzEn`, 60},
		"Base64":       {`AXrk4LMBr36i06RZ2B7wPBfmxHtvzkhpS5FEZ328v2xCLNa1yvp5/A7hzNHfYFrnidjJJWSHu+=Nelv/591d/ek7P0`, 59},
		"Hex":          {`c11c653818d192f071dbe32edadbf82b76440dc15d92d3c0f0a434cf273e42bb`, 35},
		"Digits":       {`31415926535897932384626433832795`, 11},
		"DigitsApart":  {`3 1 4 1 5 9 2 6 5 3 5 8 9 7 9 3`, 31},
		"Punctuation":  {"{[(<!?&%$#@*~^|`+=-_;:,.>)]}'/ ... --- *** ///", 27},
		"Spaces":       {`a  b   c    d`, 7},
		"Contractions": {`it's we'll they'stuff I'd've don't 'tis`, 16},
		"English":      {`Tighten while orders pile up, at most every 10 s. At night once an hour is enough.`, 23},
		"JSON":         {`{"queue":{"depth":120,"oldest_s":4.5},"status":"busy","ok":false,"nodes":["a1","b2"]}`, 32},
		"German":       {`Größe der Warteschlange überprüfen, außer nachts`, 16},
		"Russian":      {`Проверяйте очередь каждый час`, 13},
		"Chinese":      {`每小时检查一次队列的长度`, 10},
		"Japanese":     {`キューの長さを毎時確認する`, 16},
		"Korean":       {`대기열 길이를 매시간 확인하세요`, 13},
		"Arabic":       {`تحقق من طول قائمة الانتظار`, 18},
		"Emoji":        {`🙂🚀👩‍👩‍👧🏳️‍🌈🇩🇪`, 33},
		"Zalgo":        {`Z̴͑a̸l̵g̷o̶`, 17},
		"MathLetters":  {`𝔞𝔟𝔠𝖃𝖄`, 15},
	}
}

func TestTokenCountIsAnUpperBound(t *testing.T) {
	t.Parallel()
	for name, c := range counts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, times := range []int64{1, 40} {
				bound := openai.UntrustedTokens(strings.Repeat(c.text+" ", int(times)))
				require.GreaterOrEqual(t, bound, c.tokens*times)
				require.LessOrEqual(t, bound, int64(len(c.text)+1)*times, "a token is never less than a byte")
			}
			require.GreaterOrEqual(t, openai.UntrustedTokens(c.text), c.tokens)
		})
	}
	require.LessOrEqual(t, openai.UntrustedTokens(counts()["English"].text), 5*counts()["English"].tokens/2, "what people write is not charged far too much")
	require.Zero(t, openai.UntrustedTokens(""))
}

// TestTruncatedTextFitsItsTokens truncates texts of all kinds to all lengths.
func TestTruncatedTextFitsItsTokens(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 4))
	for name, c := range counts() {
		for range 50 {
			limit, size := int64(r.IntN(60)), r.IntN(200)
			text, _ := openai.Truncate(c.text, limit, size)
			require.LessOrEqual(t, openai.UntrustedTokens(text), limit, name)
			require.LessOrEqual(t, len(text), size, name)
			require.True(t, utf8.ValidString(text), name)
		}
	}
	text, cut := openai.Truncate("abc def", 5, 100)
	require.Equal(t, "abc def", text)
	require.False(t, cut)
	text, cut = openai.Truncate("abc def", 4, 100)
	require.Equal(t, "abc de", text)
	require.True(t, cut)
}

// TestToolResultsLeaveTokensForSubmission: a session can still submit after it has read a long
// answer that JSON makes longer.
func TestToolResultsLeaveTokensForSubmission(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"Brackets": strings.Repeat("<", planner.MaxBody), "Markup": strings.Repeat("<b>&amp;</b>", planner.MaxBody/12), "Quotes": strings.Repeat(`"\`, planner.MaxBody/2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tool := range []planner.Tool{planner.ToolLatestResponse, planner.ToolSiblingResponses} {
				b := setup(t, openaitest.Sequence(
					openaitest.Tools(openaitest.Invoke(string(tool), map[string]any{})), openaitest.Tools(openaitest.Submission("read")),
				))
				b.desk.body = body
				verdict, err := b.advise(t)
				require.NoError(t, err)
				require.Equal(t, "read", verdict.Reasoning)
			}
		})
	}
}

// TestCostliestInputLeavesTokensForQuestions: the prompt leaves tokens for questions even if the
// target's values and the user's texts are as expensive as possible.
func TestCostliestInputLeavesTokensForQuestions(t *testing.T) {
	t.Parallel()
	b := setup(t, openaitest.Always(openaitest.Tools(openaitest.Submission("asked"))))
	b.desk.body = "{}"
	for i := range planner.MaxFeatures {
		b.desk.features = append(b.desk.features, planner.Feature{
			Path: fmt.Sprintf("$.%02d%s", i, strings.Repeat("_1", 38)), Value: strings.Repeat("2-", 15) + strings.Repeat(".3", 15),
		})
	}
	c := aCase()
	c.Policy = strings.Repeat("Tighten while orders pile up. ", 65)
	verdict, err := b.advisor.Advise(t.Context(), c, b.desk)
	require.NoError(t, err)
	require.Equal(t, "asked", verdict.Reasoning)
	require.Equal(t, []string{"the values of the newest answer leave no room to ask, so the model was not shown them"}, b.desk.warnings)
}
