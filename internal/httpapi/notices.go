package httpapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/httpapi/api"
	"rubato/internal/notices"
	"rubato/internal/secrets"
)

// PutNoticeRule stores a notice rule, or replaces it.
func (s *Server) PutNoticeRule(ctx context.Context, r api.PutNoticeRuleRequestObject) (api.PutNoticeRuleResponseObject, error) {
	in, by := inputOf(ctx), actorOf(ctx)
	spec, unread := noticeSpecOf(*r.Body)
	if checked := joined(s.notices.CheckRule(by, r.Name, spec), unread); in.bad() || checked != nil {
		return nil, s.refuseRule(ctx, r.Name, spec, checked)
	}
	stored, created, err := s.notices.PutRule(ctx, by, r.Name, spec, conditionOn(r.Params.IfMatch, r.Params.IfNoneMatch))
	if err != nil {
		return nil, err
	}
	if created {
		return api.PutNoticeRule201JSONResponse{
			Body:    noticeRuleAnswer(stored),
			Headers: api.PutNoticeRule201ResponseHeaders{ETag: etag(stored.Version), Location: "/v1/notice-rules/" + stored.Name},
		}, nil
	}
	return api.PutNoticeRule200JSONResponse{
		Body: noticeRuleAnswer(stored), Headers: api.PutNoticeRule200ResponseHeaders{ETag: etag(stored.Version)},
	}, nil
}

// refuseRule returns the error that names every bad field of a rule, of which err holds those that
// need no database.
func (s *Server) refuseRule(ctx context.Context, name string, spec notices.Spec, err error) error {
	if err != nil && errs.CodeOf(err) != errs.Invalid {
		return err
	}
	unknown, fault := s.notices.Unknown(ctx, principalOf(ctx).TenantID, name, spec)
	if fault != nil {
		return fault
	}
	return inputOf(ctx).refuse(errs.InvalidFields(slices.Concat(errs.FieldsOf(err), unknown)))
}

// joined adds a complaint of our own to those of the domain.
func joined(err error, more *errs.Field) error {
	if more == nil || err != nil && errs.CodeOf(err) != errs.Invalid {
		return err
	}
	return errs.InvalidFields(append(errs.FieldsOf(err), *more))
}

// noticeSpecOf reads a rule. What cannot be read of it is left out, and complained of.
func noticeSpecOf(b api.NoticeRuleSpec) (notices.Spec, *errs.Field) {
	spec := notices.Spec{
		Event:    notices.Event(b.Event),
		Recovery: true,
		Enabled:  true,
		Channel:  channelOf(b.Channel),
	}
	if b.Failures != nil {
		spec.Failures = cmp.Or(int(*b.Failures), -1) // The domain takes zero for "not given", and refuses this.
	}
	spec.Late = givenSpan(b.LateMs)
	setSpan(&spec.Remind, b.RemindMs)
	if b.Recovery != nil {
		spec.Recovery = *b.Recovery
	}
	if b.Enabled != nil {
		spec.Enabled = *b.Enabled
	}
	var unread *errs.Field
	spec.Scope, unread = scopeOf(b.EndpointID, b.Labels)
	return spec, unread
}

func scopeOf(endpoint *string, labels *map[string]string) (scope notices.Scope, unread *errs.Field) {
	if labels != nil {
		scope.Labels = maps.Clone(*labels)
	}
	if endpoint != nil {
		id, err := endpoints.ParseID(*endpoint)
		if err != nil {
			return scope, &errs.Field{
				Field:   "endpointId",
				Code:    "invalid_id",
				Message: noEndpointID,
			}
		}
		scope.EndpointID = id
	}
	return scope, nil
}

func channelOf(b api.NoticeChannel) notices.Channel {
	c := notices.Channel{
		Kind:        notices.ChannelKind(b.Kind),
		URL:         text(b.URL),
		URLSecret:   text(b.URLSecret),
		TokenSecret: text(b.TokenSecret),
		Severity:    text(b.Severity),
	}
	if b.AlertLabels != nil {
		c.AlertLabels = *b.AlertLabels
	}
	if b.To != nil {
		c.To = *b.To
	}
	return c
}

// ListNoticeRules returns a page of rules.
func (s *Server) ListNoticeRules(ctx context.Context, r api.ListNoticeRulesRequestObject) (api.ListNoticeRulesResponseObject, error) {
	f := notices.PageFilter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	digest := filterDigest("notice-rules", f.TenantID)
	after, err := resumeName(r.Params.Cursor, digest, secrets.ValidName)
	if err != nil {
		return nil, err
	}
	f.After = after
	found, err := s.notices.ListRules(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.NoticeRuleList{Items: []api.NoticeRule{}}
	found, more := page(found, f.Limit)
	for _, rule := range found {
		out.Items = append(out.Items, noticeRuleAnswer(rule))
	}
	if more {
		out.NextCursor = new(nameCursor(found[len(found)-1].Name, digest))
	}
	return api.ListNoticeRules200JSONResponse(out), nil
}

// GetNoticeRule returns a rule.
func (s *Server) GetNoticeRule(ctx context.Context, r api.GetNoticeRuleRequestObject) (api.GetNoticeRuleResponseObject, error) {
	found, err := s.notices.GetRule(ctx, principalOf(ctx).TenantID, r.Name)
	if err != nil {
		return nil, err
	}
	return api.GetNoticeRule200JSONResponse{
		Body: noticeRuleAnswer(found), Headers: api.GetNoticeRule200ResponseHeaders{ETag: etag(found.Version)},
	}, nil
}

// DeleteNoticeRule deletes a rule.
func (s *Server) DeleteNoticeRule(ctx context.Context, r api.DeleteNoticeRuleRequestObject) (api.DeleteNoticeRuleResponseObject, error) {
	if err := s.notices.DeleteRule(ctx, actorOf(ctx), r.Name, versionOf(r.Params.IfMatch)); err != nil {
		return nil, err
	}
	return api.DeleteNoticeRule204Response{}, nil
}

// TestNoticeRule sends a test to where a rule says.
func (s *Server) TestNoticeRule(ctx context.Context, r api.TestNoticeRuleRequestObject) (api.TestNoticeRuleResponseObject, error) {
	release, err := s.tests.acquire(principalOf(ctx).TenantID)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := s.whileServing(ctx)
	defer cancel()
	result, err := s.notices.TestRule(ctx, actorOf(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	out := api.TestNoticeRule200JSONResponse{
		Delivered:  result.Delivered(),
		DurationMs: result.Took.Milliseconds(),
		Error:      textOrNone(cmp.Or(result.Error, result.Note)),
	}
	out.StatusCode = numberOrNone(result.StatusCode)
	return out, nil
}

// ListNotices returns a page of notices.
func (s *Server) ListNotices(ctx context.Context, r api.ListNoticesRequestObject) (api.ListNoticesResponseObject, error) {
	f := notices.Filter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	setWord(&f.State, r.Params.State)
	setWord(&f.Rule, r.Params.Rule)
	var err error
	if f.EndpointID, err = endpointNamed(r.Params.EndpointID); err != nil {
		return nil, err
	}
	digest := filterDigest("notices", f.TenantID, f.EndpointID, f.Rule, f.State)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, err := s.notices.ListNotices(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.NoticeList{Items: []api.Notice{}}
	found, more := page(found, f.Limit)
	for _, n := range found {
		out.Items = append(out.Items, noticeAnswer(n))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListNotices200JSONResponse(out), nil
}

// RetryNotice lets a notice that was given up be sent again.
func (s *Server) RetryNotice(ctx context.Context, r api.RetryNoticeRequestObject) (api.RetryNoticeResponseObject, error) {
	id, err := notices.ParseID(r.ID)
	if err != nil {
		return nil, err
	}
	found, err := s.notices.RetryNotice(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.RetryNotice200JSONResponse(noticeAnswer(found)), nil
}

// PutMaintenanceWindow stores a maintenance window, or replaces it.
func (s *Server) PutMaintenanceWindow(
	ctx context.Context, r api.PutMaintenanceWindowRequestObject,
) (api.PutMaintenanceWindowResponseObject, error) {
	in := inputOf(ctx)
	spec := notices.WindowSpec{StartsAt: wholeMs(r.Body.StartsAt), EndsAt: wholeMs(r.Body.EndsAt)}
	setWord(&spec.Reason, r.Body.Reason)
	var unread *errs.Field
	spec.Scope, unread = scopeOf(r.Body.EndpointID, r.Body.Labels)
	if checked := joined(spec.Check(r.Name), unread); in.bad() || checked != nil {
		return nil, in.refuse(checked)
	}
	stored, created, err := s.notices.PutWindow(ctx, actorOf(ctx), r.Name, spec, conditionOn(nil, r.Params.IfNoneMatch))
	if err != nil {
		return nil, err
	}
	if created {
		return api.PutMaintenanceWindow201JSONResponse{
			Body: windowAnswer(stored), Headers: api.PutMaintenanceWindow201ResponseHeaders{Location: "/v1/maintenance-windows/" + stored.Name},
		}, nil
	}
	return api.PutMaintenanceWindow200JSONResponse(windowAnswer(stored)), nil
}

func wholeMs(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// ListMaintenanceWindows returns a page of maintenance windows.
func (s *Server) ListMaintenanceWindows(
	ctx context.Context, r api.ListMaintenanceWindowsRequestObject,
) (api.ListMaintenanceWindowsResponseObject, error) {
	f := notices.PageFilter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	digest := filterDigest("maintenance-windows", f.TenantID)
	after, err := resumeName(r.Params.Cursor, digest, secrets.ValidName)
	if err != nil {
		return nil, err
	}
	f.After = after
	found, err := s.notices.ListWindows(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.MaintenanceWindowList{Items: []api.MaintenanceWindow{}}
	found, more := page(found, f.Limit)
	for _, w := range found {
		out.Items = append(out.Items, windowAnswer(w))
	}
	if more {
		out.NextCursor = new(nameCursor(found[len(found)-1].Name, digest))
	}
	return api.ListMaintenanceWindows200JSONResponse(out), nil
}

// DeleteMaintenanceWindow deletes a maintenance window.
func (s *Server) DeleteMaintenanceWindow(
	ctx context.Context, r api.DeleteMaintenanceWindowRequestObject,
) (api.DeleteMaintenanceWindowResponseObject, error) {
	if err := s.notices.DeleteWindow(ctx, actorOf(ctx), r.Name); err != nil {
		return nil, err
	}
	return api.DeleteMaintenanceWindow204Response{}, nil
}
