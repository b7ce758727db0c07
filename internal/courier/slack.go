package courier

import (
	"strings"
	"unicode/utf16"

	"rubato/internal/egress"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// slackRequest fills in the message for Slack.
func slackRequest(r *egress.Request, p *notices.Delivery, _ *secrets.Set) error {
	return encode(r, slackOf(p))
}

// chatEscapes are the three characters that mean something to Slack, and the one that calls for people elsewhere: what nobody sees stands behind
// it.
//
//nolint:gochecknoglobals // It never changes.
var chatEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b")

// maxChat is how long a message may be, in units of UTF-16: Discord refuses longer ones.
const maxChat = 2000

// slackOf returns what Slack and those that understand its messages get. It is escaped, so that neither the name of an endpoint nor what its
// target answered calls for a whole channel or shows a link as another one.
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

// chatText escapes a text, and cuts it between two of its characters where it is too long.
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

// units returns how long a text is in UTF-16.
func units(text string) (n int) {
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}
