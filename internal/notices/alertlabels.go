package notices

import (
	"fmt"
	"regexp"
	"strings"
)

// The labels that every alert has, except for severity, which is optional.
const (
	AlertName     = "alertname"
	AlertRule     = "rule"
	AlertEndpoint = "endpoint_id"
	AlertSeverity = "severity"
)

const (
	maxAlertLabels = 16
	maxLabelName   = 63 // characters, as of endpoints
)

var (
	severities    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	alertUnusable = regexp.MustCompile(`[^A-Za-z0-9_]`)
)

// AlertLabel returns the label name of an endpoint's label on alerts. Prometheus permits letters,
// digits and underscores, and no leading digit.
func AlertLabel(name string) string {
	name = alertUnusable.ReplaceAllString(name, "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}

// checkAlert checks the alert fields of a channel.
func (c Channel) checkAlert(bad *complaints) {
	if c.Kind != Alertmanager {
		c.refuseAlert(bad)
		return
	}
	if c.Severity != "" && !severities.MatchString(c.Severity) {
		bad.complain("channel.severity", "severity_invalid", "must be up to 63 letters, digits, hyphens and underscores, such as critical")
	}
	if len(c.AlertLabels) > maxAlertLabels {
		bad.complain("channel.alertLabels", "too_many", "must be at most 16 names of labels")
		return
	}
	taken := map[string]string{
		AlertName:     "Rubato",
		AlertRule:     "Rubato",
		AlertEndpoint: "Rubato",
	}
	if c.Severity != "" {
		taken[AlertSeverity] = "severity"
	}
	for i, name := range c.AlertLabels {
		field, label := fmt.Sprintf("channel.alertLabels[%d]", i), AlertLabel(name)
		switch by, twice := taken[label]; {
		case strings.TrimSpace(name) == "" || !short(name, maxLabelName):
			bad.complain(field, "name_invalid", "must be the name of a label of endpoints, such as team")
		case twice:
			bad.complain(field, "label_taken", fmt.Sprintf("must be another one: the label %s of the alert is set by %s", label, by))
		}
		taken[label] = name
	}
}

// refuseAlert refuses alert fields in a channel of another kind.
func (c Channel) refuseAlert(bad *complaints) {
	if c.Severity != "" {
		bad.complain("channel.severity", "not_for_channel", "must be left out unless the channel is alertmanager")
	}
	if len(c.AlertLabels) > 0 {
		bad.complain("channel.alertLabels", "not_for_channel", "must be left out unless the channel is alertmanager")
	}
}
