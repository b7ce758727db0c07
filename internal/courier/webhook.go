package courier

import (
	"maps"
	"time"

	"rubato/internal/egress"
	"rubato/internal/notices"
	"rubato/internal/secrets"
	"rubato/internal/signing"
)

// webhookRequest sets the body of a webhook and signs it.
func webhookRequest(r *egress.Request, p *notices.Delivery, set *secrets.Set) error {
	if err := encode(r, webhookOf(p)); err != nil {
		return err
	}
	return sign(r, p, set)
}

// sign signs a request by Standard Webhooks. The message ID is that of the notice, so that it is
// the same for every attempt.
func sign(r *egress.Request, p *notices.Delivery, set *secrets.Set) error {
	keys, err := set.SigningKeys(p.Now)
	if err != nil {
		return err
	}
	headers, err := signing.Sign(signing.Message{
		ID:   p.ID.String(),
		At:   p.Now,
		Body: r.Body,
	}, keys)
	if err != nil {
		return err
	}
	maps.Copy(r.Meta, headers)
	return nil
}

// webhook is the body of a webhook request.
type webhook struct {
	// Type is the kind of the notice, such as notice.opened.
	Type      string      `json:"type"`
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
	Method       string            `json:"method,omitempty"`
	// Host is the host of the endpoint's URL.
	Host string `json:"host,omitempty"`
	// Link is the endpoint's page in the console.
	Link string `json:"link,omitempty"`
	// RunLink is the run's page in the console.
	RunLink    string     `json:"runLink,omitempty"`
	RunbookURL string     `json:"runbookUrl,omitempty"`
	Summary    string     `json:"summary"`
	OpenedAt   time.Time  `json:"openedAt"`
	ClosedAt   *time.Time `json:"closedAt,omitempty"`
	// Cause is set for notice.withdrawn.
	Cause    notices.Cause  `json:"cause,omitempty"`
	Reminder int            `json:"reminder,omitempty"`
	Test     bool           `json:"test,omitempty"`
	Detail   notices.Detail `json:"detail"`
}

func webhookOf(p *notices.Delivery) webhook {
	w := webhook{
		Type:      "notice." + string(p.Kind),
		Timestamp: p.CreatedAt.UTC(),
		Data: webhookData{
			NoticeID:     p.ID.String(),
			EpisodeID:    p.EpisodeID.String(),
			Rule:         p.Rule,
			Event:        p.Event,
			EndpointID:   p.EndpointID.String(),
			EndpointName: p.EndpointName,
			Labels:       p.Labels,
			Summary:      p.Subject(),
			OpenedAt:     p.OpenedAt.UTC(),
			Cause:        p.Cause,
			Reminder:     p.Number,
			Test:         p.Test,
			Detail:       p.Detail,
			Method:       p.Spec.Method,
			Host:         p.Host,
			Link:         p.Link(),
			RunLink:      p.RunLink(),
			RunbookURL:   p.Spec.RunbookURL,
		},
	}
	if p.Test {
		w.Type = "notice.test"
	}
	if !p.ClosedAt.IsZero() {
		w.Data.ClosedAt = new(p.ClosedAt.UTC())
	}
	return w
}
