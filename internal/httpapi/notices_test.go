package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryBadFieldOfANoticeRuleIsNamed sends rules with many bad fields.
func TestEveryBadFieldOfANoticeRuleIsNamed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, body string
		status     int
		want       map[string]string // field to code
	}{
		"Failures": {
			"/v1/notice-rules/x", `{"event":"failures","lateMs":5000,"endpointId":"x","remindMs":5,"channel":{"kind":"webhook"}}`, 422,
			map[string]string{
				"failures": "out_of_range", "lateMs": "not_for_event", "endpointId": "invalid_id", "remindMs": "out_of_range", "channel.url": "required",
			},
		},
		"Late": {
			"/v1/notice-rules/X!", `{"event":"late","lateMs":10,"failures":2,"recovery":false,"channel":{"kind":"alertmanager","url":"http://127.0.0.1/","to":["a@b.example"]}}`, 422,
			map[string]string{
				"name": "name_invalid", "lateMs": "out_of_range", "failures": "not_for_event", "recovery": "recovery_required",
				"channel.url": "url_forbidden", "channel.to": "not_for_channel",
			},
		},
		"Alerts": {
			"/v1/notice-rules/x", `{"event":"lost","channel":{"kind":"alertmanager","url":"https://a.example/","severity":"a b","alertLabels":["rule"," "]}}`, 422,
			map[string]string{"channel.severity": "severity_invalid", "channel.alertLabels[0]": "label_taken", "channel.alertLabels[1]": "name_invalid"},
		},
		"AlertsInAChat": {
			"/v1/notice-rules/x", `{"event":"lost","channel":{"kind":"slack","url":"https://a.example/","severity":"page","alertLabels":["team"]}}`, 422,
			map[string]string{"channel.severity": "not_for_channel", "channel.alertLabels": "not_for_channel"},
		},
		"Scope": {
			"/v1/notice-rules/x", `{"event":"lost","endpointId":"ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90","labels":{"a":"b"},"channel":{"kind":"slack","url":"https://a.example/","urlSecret":"b"}}`, 422,
			map[string]string{"labels": "scope_order", "channel.urlSecret": "url_twice"},
		},
		"Mail": {
			"/v1/notice-rules/x", `{"event":"paused","channel":{"kind":"email","url":"https://a.example/","to":["A <a@b.example>"]}}`, 422,
			map[string]string{"channel.url": "not_for_channel", "channel.to[0]": "address_invalid"},
		},
		"MailWithNewline": {
			"/v1/notice-rules/x", `{"event":"paused","channel":{"kind":"email","to":["a@b.example\r\nBcc: c@d.example"]}}`, 422,
			map[string]string{"channel.to[0]": "address_invalid"},
		},
		"MailToSomeThatCannotBeRead": {
			"/v1/notice-rules/x", `{"event":"paused","channel":{"kind":"email","to":[5,"bad","a@b.example","bad"]}}`, 400,
			map[string]string{"channel.to[0]": "invalid_type", "channel.to[1]": "address_invalid", "channel.to[3]": "address_invalid"},
		},
		"Labels": {
			"/v1/notice-rules/x", `{"event":"paused","labels":{"` + strings.Repeat("x", 64) + `":"","":"v","a":5},"channel":{"kind":"slack","url":"https://a.example/"}}`, 400,
			map[string]string{"labels." + strings.Repeat("x", 64): "too_long", "labels.": "required", "labels.a": "invalid_type"},
		},
		"Types": {"/v1/notice-rules/x", `{"event":1,"channel":{"kind":"slack","url":"https://a.example/"},"more":1}`, 400, map[string]string{"event": "invalid_type", "more": "unknown_field"}},
		"Enormous": {
			"/v1/notice-rules/x", `{"event":"failures","failures":5000000000,"remindMs":1,"channel":{"kind":"slack","url":"https://a.example/"}}`, 422,
			map[string]string{"failures": "out_of_range", "remindMs": "out_of_range"},
		},
		"EnormousAndNotForTheEvent": {
			"/v1/notice-rules/x", `{"event":"lost","failures":-5000000000,"channel":{"kind":"slack","url":"https://a.example/"}}`, 422,
			map[string]string{"failures": "out_of_range"},
		},
		"ZeroIsGiven": {
			"/v1/notice-rules/x", `{"event":"lost","failures":0,"lateMs":0,"channel":{"kind":"slack","url":"https://a.example/"}}`, 422,
			map[string]string{"failures": "not_for_event", "lateMs": "not_for_event"},
		},
		"NothingIsNoName": {
			"/v1/notice-rules/x", `{"event":"lost","channel":{"kind":"webhook","url":"https://a.example/","tokenSecret":""}}`, 422,
			map[string]string{"channel.tokenSecret": "name_invalid"},
		},
		"UnknownSecret": {
			"/v1/notice-rules/x", `{"event":"lost","remindMs":5,"channel":{"kind":"slack","urlSecret":"none"}}`, 422,
			map[string]string{"remindMs": "out_of_range", "channel.urlSecret": "secret_unknown"},
		},
		"UnknownSecretBesideWhatCannotBeRead": {
			"/v1/notice-rules/x", `{"event":"lost","more":1,"channel":{"kind":"slack","urlSecret":"none"}}`, 400,
			map[string]string{"more": "unknown_field", "channel.urlSecret": "secret_unknown"},
		},
		"Window": {
			"/v1/maintenance-windows/x", `{"startsAt":"2026-01-02T00:00:00Z","endsAt":"2026-01-01T00:00:00Z","endpointId":"x"}`, 422,
			map[string]string{"endsAt": "window_order", "endpointId": "invalid_id"},
		},
		"LongWindow": {
			"/v1/maintenance-windows/x", `{"startsAt":"1999-01-02T00:00:00Z","endsAt":"2026-01-01T00:00:00Z"}`, 422,
			map[string]string{"endsAt": "out_of_range", "startsAt": "out_of_range"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			a := s.call("PUT", tc.path, tc.body, withKey(writeKey))
			require.Equal(t, tc.status, a.status, "%s", a.body)
			got := map[string]string{}
			for _, f := range a.problem().Errors {
				got[f.Field] = f.Code
			}
			require.Equal(t, tc.want, got)
			require.Zero(t, s.store.writes)
		})
	}
}

func TestANewNoticeRuleHasALocation(t *testing.T) {
	t.Parallel()
	s := newService(t)
	a := s.call("PUT", "/v1/notice-rules/fresh", `{"event":"failures","failures":3,"channel":{"kind":"slack","urlSecret":"any"}}`, withKey(writeKey))
	got := a.is(http.StatusCreated)
	require.Equal(t, "/v1/notice-rules/fresh", a.header.Get("Location"))
	require.Equal(t, `"1"`, a.header.Get("ETag"))
	require.Equal(t, true, got["recovery"])
	require.Equal(t, true, got["enabled"])
	s.call("PUT", "/v1/notice-rules/any", `{"event":"failures","failures":3,"channel":{"kind":"slack","urlSecret":"any"}}`, withKey(writeKey)).is(http.StatusOK)
	next := s.call("GET", "/v1/notice-rules?limit=1", "", withKey(readKey)).is(http.StatusOK)["nextCursor"]
	require.NotEmpty(t, next)
	require.NotEmpty(t, s.call("GET", "/v1/notices?limit=1&state=dead", "", withKey(readKey)).is(http.StatusOK)["nextCursor"])
	require.NotEmpty(t, s.call("GET", "/v1/maintenance-windows?limit=1", "", withKey(readKey)).is(http.StatusOK)["nextCursor"])
	window := `{"startsAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-02T00:00:00Z"}`
	require.Equal(t, "/v1/maintenance-windows/fresh", s.call("PUT", "/v1/maintenance-windows/fresh", window, withKey(writeKey)).header.Get("Location"))
}

// TestRulesAndWindowsHonourConditions sends conditions for an existing object at version 1 and for
// a missing one.
func TestRulesAndWindowsHonourConditions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const any, fresh, window, freshWindow = "/v1/notice-rules/any", "/v1/notice-rules/fresh", "/v1/maintenance-windows/any", "/v1/maintenance-windows/fresh"
	require.Equal(t, `"1"`, s.call("GET", any, "", withKey(readKey)).header.Get("ETag"))
	for name, tc := range map[string]struct {
		method, path, header, value string
		status                      int
		code                        string
	}{
		"ThisVersion":       {"PUT", any, "If-Match", `"1"`, 200, ""},
		"OtherVersion":      {"PUT", any, "If-Match", `"2"`, 412, "version_mismatch"},
		"OnlyReplace":       {"PUT", any, "If-Match", "*", 200, ""},
		"NothingToReplace":  {"PUT", fresh, "If-Match", "*", 412, "version_mismatch"},
		"NoSuchVersion":     {"PUT", fresh, "If-Match", `"1"`, 412, "version_mismatch"},
		"NoTag":             {"PUT", any, "If-Match", "1", 400, "malformed_fields"},
		"OnlyCreate":        {"PUT", any, "If-None-Match", "*", 412, "name_taken"},
		"Create":            {"PUT", fresh, "If-None-Match", "*", 201, ""},
		"NotThisVersion":    {"PUT", any, "If-None-Match", `"1"`, 412, "version_mismatch"},
		"NotOtherVersion":   {"PUT", any, "If-None-Match", `"2"`, 200, ""},
		"DeleteThisVersion": {"DELETE", any, "If-Match", `"1"`, 204, ""},
		"DeleteOther":       {"DELETE", any, "If-Match", `"2"`, 412, "version_mismatch"},
		"DeleteNoTag":       {"DELETE", any, "If-Match", "1", 400, "malformed_fields"},
		"OnlyCreateWindow":  {"PUT", window, "If-None-Match", "*", 412, "name_taken"},
		"CreateWindow":      {"PUT", freshWindow, "If-None-Match", "*", 201, ""},
	} {
		body := `{"event":"failures","failures":3,"channel":{"kind":"slack","urlSecret":"any"}}`
		if strings.Contains(tc.path, "windows") {
			body = `{"startsAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-02T00:00:00Z"}`
		}
		if tc.method == "DELETE" {
			body = ""
		}
		a := s.call(tc.method, tc.path, body, withKey(writeKey), withHeader(tc.header, tc.value))
		require.Equal(t, tc.status, a.status, "%s: %s", name, a.body)
		if tc.code != "" {
			require.Equal(t, tc.code, a.problem().Code, name)
		}
	}
}

// TestInvalidWindowsAreRefused sends conditions on a version, which windows lack.
func TestInvalidWindowsAreRefused(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for name, tc := range map[string]struct{ method, path, header, value, complaint, says string }{
		"NoVersion":  {"PUT", "any", "If-None-Match", `"1"`, "If-None-Match invalid_value", "must be *"},
		"NoTag":      {"PUT", "any", "If-None-Match", "x", "If-None-Match invalid_value", "must be *"},
		"Nothing":    {"PUT", "any", "If-None-Match", "", "If-None-Match invalid_value", "must be *"},
		"Match":      {"PUT", "any", "If-Match", `"77"`, "If-Match unknown_parameter", "leave it out"},
		"MatchAny":   {"PUT", "fresh", "If-Match", "*", "If-Match unknown_parameter", "leave it out"},
		"Delete":     {"DELETE", "any", "If-Match", `"77"`, "If-Match unknown_parameter", "leave it out"},
		"DeleteNone": {"DELETE", "any", "If-None-Match", "*", "If-None-Match unknown_parameter", "leave it out"},
	} {
		body := `{"startsAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-02T00:00:00Z"}`
		if tc.method == "DELETE" {
			body = ""
		}
		a := s.call(tc.method, "/v1/maintenance-windows/"+tc.path, body, withKey(writeKey), withHeader(tc.header, tc.value))
		require.Equal(t, http.StatusBadRequest, a.status, "%s: %s", name, a.body)
		require.Equal(t, []string{tc.complaint}, a.complaints(), name)
		require.Contains(t, a.problem().Errors[0].Message, tc.says, name)
	}
	require.Zero(t, s.store.writes)
}

func TestATestOfARuleReturnsItsDelivery(t *testing.T) {
	t.Parallel()
	s := newService(t)
	got := s.call("POST", "/v1/notice-rules/any/test", "", withKey(writeKey)).is(http.StatusOK)
	require.Equal(t, false, got["delivered"])
	require.EqualValues(t, 403, got["statusCode"])
	require.Contains(t, got["error"], "any")
	require.Equal(t, http.StatusNotFound, s.call("POST", "/v1/notice-rules/unknown/test", "", withKey(writeKey)).status)
}
