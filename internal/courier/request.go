package courier

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"

	"rubato/internal/egress"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
)

// request returns the call that tells a receiver.
func request(p *notices.Parcel, set *secrets.Set) (egress.Request, error) {
	r := egress.Request{Method: http.MethodPost, URL: p.Channel.URL, Header: http.Header{}, Meta: http.Header{"Content-Type": {"application/json"}}}
	if name := p.Channel.URLSecret; name != "" {
		value, err := set.Secret(name)
		if err != nil {
			return r, err
		}
		r.URL = strings.TrimSpace(value)
	}
	if name := p.Channel.TokenSecret; name != "" {
		value, err := set.Secret(name)
		if err != nil {
			return r, err
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(value))
	}
	var body any
	switch p.Channel.Kind {
	case notices.Slack:
		body = slackOf(p)
	case notices.Alertmanager:
		r.URL = alertsURL(r.URL)
		body = alertsOf(p)
	case notices.Webhook, notices.Email:
		body = webhookOf(p)
	}
	var err error
	if r.Body, err = json.Marshal(body); err != nil {
		return r, fmt.Errorf("encoding the notice: %w", err)
	}
	if p.Channel.Kind == notices.Webhook {
		return r, sign(&r, p, set)
	}
	return r, nil
}

// sign signs a call by Standard Webhooks, under the ID of the notice, which is the same however often it is sent.
func sign(r *egress.Request, p *notices.Parcel, set *secrets.Set) error {
	keys, err := set.SigningKeys(p.Now)
	if err != nil {
		return err
	}
	headers, err := signing.Sign(signing.Message{ID: p.ID.String(), At: p.Now, Body: r.Body}, keys)
	if err != nil {
		return err
	}
	maps.Copy(r.Meta, headers)
	return nil
}

// webhook is what a webhook gets.
type webhook struct {
	Type      string      `json:"type"` // notice.opened and the like
	Timestamp time.Time   `json:"timestamp"`
	Data      webhookData `json:"data"`
}

type webhookData struct {
	NoticeID     string            `json:"noticeId"`
	EpisodeID    string            `json:"episodeId"`
	Rule         string            `json:"rule"`
	Event        notices.Event     `json:"event"`
	EndpointID   string            `json:"endpointId"`
	EndpointName string            `json:"endpointName"`
	Labels       map[string]string `json:"labels"`
	Summary      string            `json:"summary"`
	OpenedAt     time.Time         `json:"openedAt"`
	ClosedAt     *time.Time        `json:"closedAt,omitempty"`
	Cause        notices.Cause     `json:"cause,omitempty"` // of notice.withdrawn
	Reminder     int               `json:"reminder,omitempty"`
	Test         bool              `json:"test,omitempty"`
	Detail       notices.Detail    `json:"detail"`
}

func webhookOf(p *notices.Parcel) webhook {
	w := webhook{Type: "notice." + string(p.Kind), Timestamp: p.CreatedAt.UTC(), Data: webhookData{
		NoticeID: p.ID.String(), EpisodeID: p.EpisodeID.String(), Rule: p.Rule, Event: p.Event, EndpointID: p.EndpointID.String(),
		EndpointName: p.EndpointName, Labels: p.Labels, Summary: p.Subject(), OpenedAt: p.OpenedAt.UTC(), Cause: p.Cause, Reminder: p.Number, Test: p.Test,
		Detail: p.Detail,
	}}
	if p.Test {
		w.Type = "notice.test"
	}
	if !p.ClosedAt.IsZero() {
		w.Data.ClosedAt = new(p.ClosedAt.UTC())
	}
	return w
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
func slackOf(p *notices.Parcel) map[string]string {
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

const (
	// alertLife is how long an Alertmanager shows an episode of which it hears no more. An alert without an end is over for it after
	// minutes, which its senders prevent by sending again; a notice is sent once.
	alertLife = 30 * 24 * time.Hour
	// alertMargin is for how long a reminder may be late.
	alertMargin = 6 * time.Hour
)

// alert is an alert of Alertmanager's API v2. What it is known by are its labels, so they are the same for all notices of an episode: the
// endpoint's name, which may change meanwhile, is none of them.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// alertsURL returns where an Alertmanager takes alerts, by its address, which may have a query for whoever stands before it.
func alertsURL(address string) string {
	address, _, _ = strings.Cut(address, "#")
	address, query, asks := strings.Cut(address, "?")
	address = strings.TrimSuffix(address, "/") + "/api/v2/alerts"
	if asks {
		address += "?" + query
	}
	return address
}

func alertsOf(p *notices.Parcel) []alert {
	a := alert{
		Labels: map[string]string{
			"alertname": "Rubato" + title(string(p.Event)), "rule": p.Rule, "endpoint_id": p.EndpointID.String(),
		},
		Annotations: map[string]string{
			"summary": p.Subject(), "description": strings.Join(p.Lines(), "\n"), "endpoint": p.EndpointName, "notice_id": p.ID.String(),
		},
		StartsAt: p.OpenedAt.UTC(),
		EndsAt:   p.Now.UTC().Add(alertLife),
	}
	switch {
	case p.Test:
		a.Labels["alertname"], a.EndsAt = "RubatoTest", p.Now.UTC().Add(time.Minute)
	case !p.ClosedAt.IsZero():
		a.EndsAt = p.ClosedAt.UTC()
	case p.Remind > 0:
		a.EndsAt = p.Now.UTC().Add(2*p.Remind + alertMargin)
	}
	return []alert{a}
}

func title(word string) string {
	return strings.ToUpper(word[:1]) + word[1:]
}
