package httpapi

import (
	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/notices"
)

func noticeRuleAnswer(r notices.Rule) api.NoticeRule {
	out := api.NoticeRule{
		Name:      r.Name,
		Event:     api.NoticeEvent(r.Event),
		Recovery:  r.Recovery,
		RemindMs:  r.Remind.Milliseconds(),
		Enabled:   r.Enabled,
		Version:   r.Version,
		CreatedAt: r.CreatedAt.UTC(),
		CreatedBy: r.CreatedBy,
		UpdatedAt: r.UpdatedAt.UTC(),
		UpdatedBy: r.UpdatedBy,
		Channel: api.NoticeChannel{
			Kind:        api.NoticeChannelKind(r.Channel.Kind),
			URL:         textOrNone(r.Channel.URL),
			URLSecret:   textOrNone(r.Channel.URLSecret),
			TokenSecret: textOrNone(r.Channel.TokenSecret),
			Severity:    textOrNone(r.Channel.Severity),
		},
		Failures: numberOrNone(r.Failures),
	}
	if len(r.Channel.To) > 0 {
		out.Channel.To = &r.Channel.To
	}
	if len(r.Channel.AlertLabels) > 0 {
		out.Channel.AlertLabels = &r.Channel.AlertLabels
	}
	if r.Late > 0 {
		out.LateMs = new(r.Late.Milliseconds())
	}
	out.EndpointID, out.Labels = scopeAnswer(r.Scope)
	return out
}

func scopeAnswer(s notices.Scope) (endpoint *string, labels *map[string]string) {
	if s.EndpointID != (endpoints.ID{}) {
		endpoint = new(s.EndpointID.String())
	}
	if len(s.Labels) > 0 {
		labels = &s.Labels
	}
	return endpoint, labels
}

func noticeAnswer(n notices.Notice) api.Notice {
	d := n.Detail
	out := api.Notice{
		ID:            n.ID.String(),
		Kind:          api.NoticeKind(n.Kind),
		Rule:          n.Rule,
		Event:         api.NoticeEvent(n.Event),
		EndpointID:    n.EndpointID.String(),
		EndpointName:  n.EndpointName,
		EpisodeID:     n.EpisodeID.String(),
		OpenedAt:      n.OpenedAt.UTC(),
		ClosedAt:      shown(n.ClosedAt),
		CreatedAt:     n.CreatedAt.UTC(),
		State:         api.NoticeState(n.State),
		Attempts:      int32(n.Attempts),
		Held:          n.Held,
		NextAttemptAt: shown(n.NextAt),
		EndedAt:       shown(n.EndedAt),
		StatusCode:    numberOrNone(n.StatusCode),
		Error:         textOrNone(n.Error),
		Reminder:      numberOrNone(n.Number),
		Detail: api.NoticeDetail{
			Failures:     numberOrNone(d.Failures),
			RunID:        textOrNone(d.RunID),
			Status:       textOrNone(d.Status),
			ReasonCode:   textOrNone(d.ReasonCode),
			StatusCode:   numberOrNone(d.StatusCode),
			Error:        textOrNone(d.Error),
			Reason:       textOrNone(d.Reason),
			Host:         textOrNone(d.Host),
			SuggestionID: textOrNone(d.SuggestionID),
		},
	}
	if n.Cause != "" {
		out.Cause = new(api.NoticeCause(n.Cause))
	}
	if d.LateMs > 0 {
		out.Detail.LateMs = &d.LateMs
	}
	return out
}

func windowAnswer(w notices.Window) api.MaintenanceWindow {
	out := api.MaintenanceWindow{
		Name:      w.Name,
		StartsAt:  w.StartsAt.UTC(),
		EndsAt:    w.EndsAt.UTC(),
		Reason:    w.Reason,
		CreatedAt: w.CreatedAt.UTC(),
		CreatedBy: w.CreatedBy,
	}
	out.EndpointID, out.Labels = scopeAnswer(w.Scope)
	return out
}

func textOrNone(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func numberOrNone(n int) *int32 {
	if n == 0 {
		return nil
	}
	return new(int32(n))
}
