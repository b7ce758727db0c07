package courier

import (
	"strings"
	"time"

	"rubato/internal/egress"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// alertmanagerRequest sets the alert and the path of the API.
func alertmanagerRequest(r *egress.Request, p *notices.Delivery, _ *secrets.Set) error {
	r.URL = alertsURL(r.URL)
	return encode(r, alertsOf(p))
}

const (
	// alertLife is how long Alertmanager shows an open episode. It must be set, because
	// Alertmanager resolves an alert without an end after minutes unless it is sent again, and a
	// notice is sent once.
	alertLife = 30 * 24 * time.Hour
	// alertMargin is the tolerated delay of a reminder.
	alertMargin = 6 * time.Hour
)

// alert is an alert of Alertmanager's API v2. Its labels are its identity, so they must be equal
// for all notices of an episode. The endpoint's name is an annotation, because it may change. The
// endpoint's labels are those at the opening of the episode.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Generator   string            `json:"generatorURL,omitempty"` //nolint:tagliatelle // Alertmanager defines the name.
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// alertsURL returns the URL of the alerts API for the address of an Alertmanager. A query is kept,
// because a proxy in front may need it.
func alertsURL(address string) string {
	address, _, _ = strings.Cut(address, "#")
	address, query, asks := strings.Cut(address, "?")
	address = strings.TrimSuffix(address, "/") + "/api/v2/alerts"
	if asks {
		address += "?" + query
	}
	return address
}

func alertsOf(p *notices.Delivery) []alert {
	a := alert{
		Labels: map[string]string{
			notices.AlertName: "Rubato" + title(string(p.Event)), notices.AlertRule: p.Rule, notices.AlertEndpoint: p.EndpointID.String(),
		},
		Annotations: map[string]string{
			"summary": p.Subject(), "description": strings.Join(p.Lines(), "\n"), "endpoint": p.EndpointName, "notice_id": p.ID.String(),
		},
		Generator: p.Link(),
		StartsAt:  p.OpenedAt.UTC(),
		EndsAt:    p.Now.UTC().Add(alertLife),
	}
	for _, name := range p.Channel.AlertLabels {
		if value := p.Labels[name]; value != "" {
			a.Labels[notices.AlertLabel(name)] = value
		}
	}
	if p.Channel.Severity != "" {
		a.Labels[notices.AlertSeverity] = p.Channel.Severity
	}
	if p.Spec.RunbookURL != "" {
		a.Annotations["runbook_url"] = p.Spec.RunbookURL
	}
	if link := p.RunLink(); link != "" {
		a.Annotations["run_url"] = link
	}
	switch {
	case p.Test:
		a.Labels[notices.AlertName], a.EndsAt = "RubatoTest", p.Now.UTC().Add(time.Minute)
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
