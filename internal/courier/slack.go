package courier

import (
	"strings"
	"unicode/utf16"

	"rubato/internal/egress"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// slackRequest sets the message for Slack.
func slackRequest(r *egress.Request, p *notices.Delivery, _ *secrets.Set) error {
	return encode(r, slackOf(p))
}

// chatEscapes escapes the three control characters of Slack's markup. It also puts a zero-width
// space behind @, because other chat systems notify people by it.
//
//nolint:gochecknoglobals // It never changes.
var chatEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b")

// maxChat is the maximum length of a message in UTF-16 units. Discord refuses longer ones.
const maxChat = 2000

// slackOf returns the message for Slack and compatible receivers. It is escaped, because the name
// of an endpoint or an error could otherwise notify a channel or disguise a link.
func slackOf(p *notices.Delivery) map[string]string {
	icon := map[notices.Kind]string{
		notices.Opened: ":red_circle:", notices.Reminder: ":large_orange_circle:", notices.Recovered: ":large_green_circle:",
		notices.Withdrawn: ":white_circle:",
	}[p.Kind]
	if p.Test {
		icon = ":white_circle:"
	}
	return map[string]string{"text": chatText(icon + " " + p.Subject() + "\n" + strings.Join(p.Lines(), "\n"))}
}

// chatText escapes a text and truncates it to maxChat, between two characters.
func chatText(text string) string {
	if whole := chatEscapes.Replace(text); units(whole) <= maxChat {
		return whole
	}
	var cut strings.Builder
	room := maxChat - units("…")
	for _, r := range text {
		part := chatEscapes.Replace(string(r))
		if room -= units(part); room < 0 {
			break
		}
		cut.WriteString(part)
	}
	return cut.String() + "…"
}

// units returns the length of a text in UTF-16 units.
func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}
