package httpapi

import (
	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
)

// setDelivery fills in how calls are shaped, judged and kept.
func setDelivery(s *endpoints.Spec, in api.EndpointSpec) {
	set(&s.Query, in.Query)
	s.Auth, s.TLS = authOf(in.Auth), tlsOf(in.TLS)
	set(&s.Sign, in.Sign)
	for _, rule := range elements(in.SuccessRules) {
		s.SuccessRules = append(s.SuccessRules, ruleOf(rule))
	}
	setInt(&s.ResponseTailKB, in.ResponseTailKb)
	for _, rule := range elements(in.Redact) {
		s.Redact = append(s.Redact, endpoints.RedactRule{
			Header: text(rule.Header), JSONPath: text(rule.JSONPath), Pattern: text(rule.Pattern), Replacement: orEmpty(rule.Replacement),
		})
	}
	set(&s.Conditional, in.Conditional)
	setWord(&s.Planner, in.Planner)
}

// documentDelivery is the inverse of setDelivery.
func documentDelivery(out *api.EndpointSpec, s endpoints.Spec) {
	if len(s.Query) > 0 {
		out.Query = &s.Query
	}
	out.Auth, out.TLS = authDocument(s.Auth), tlsDocument(s.TLS)
	out.Sign, out.Conditional = &s.Sign, &s.Conditional
	out.ResponseTailKb = new(int64(s.ResponseTailKB))
	out.SuccessRules, out.Redact = rulesDocument(s.SuccessRules), redactDocument(s.Redact)
	out.Planner = new(api.PlannerAuthority(s.Planner))
}

func authOf(in *api.Auth) *endpoints.Auth {
	if in == nil {
		return nil
	}
	return &endpoints.Auth{
		Type: endpoints.AuthType(in.Type), Username: text(in.Username), Password: text(in.Password), Token: text(in.Token),
		Header: text(in.Header), Value: text(in.Value),
		TokenURL: text(in.TokenURL), ClientID: text(in.ClientID), ClientSecret: text(in.ClientSecret),
		Scopes: elements(in.Scopes), Audience: text(in.Audience),
	}
}

func authDocument(a *endpoints.Auth) *api.Auth {
	if a == nil {
		return nil
	}
	return &api.Auth{
		Type: api.AuthType(a.Type), Username: optional(a.Username), Password: optional(a.Password), Token: optional(a.Token),
		Header: optional(a.Header), Value: optional(a.Value),
		TokenURL: optional(a.TokenURL), ClientID: optional(a.ClientID), ClientSecret: optional(a.ClientSecret),
		Scopes: optionalList(a.Scopes), Audience: optional(a.Audience),
	}
}

func tlsOf(in *api.TLS) *endpoints.TLS {
	if in == nil {
		return nil
	}
	t := &endpoints.TLS{
		CACertificates: text(in.CaCertificates), ClientCertificate: text(in.ClientCertificate), ClientKey: text(in.ClientKey),
		ServerName: text(in.ServerName),
	}
	setWord(&t.MinVersion, in.MinVersion)
	set(&t.SkipVerify, in.SkipVerify)
	return t
}

func tlsDocument(t *endpoints.TLS) *api.TLS {
	if t == nil {
		return nil
	}
	out := &api.TLS{
		CaCertificates: optional(t.CACertificates), ClientCertificate: optional(t.ClientCertificate), ClientKey: optional(t.ClientKey),
		ServerName: optional(t.ServerName),
	}
	if t.MinVersion != "" {
		out.MinVersion = new(api.TLSVersion(t.MinVersion))
	}
	if t.SkipVerify {
		out.SkipVerify = &t.SkipVerify
	}
	return out
}

func ruleOf(in api.SuccessRule) endpoints.AnswerRule {
	rule := endpoints.AnswerRule{
		Header: text(in.Header), JSONPath: text(in.JSONPath), Value: in.Value,
		Expression: text(in.Expression),
	}
	setWord(&rule.Type, &in.Type)
	setWord(&rule.Op, in.Op)
	set(&rule.MaxLatencyMs, in.MaxLatencyMs)
	return rule
}

func rulesDocument(rules []endpoints.AnswerRule) *[]api.SuccessRule {
	out := make([]api.SuccessRule, 0, len(rules))
	for _, r := range rules {
		rule := api.SuccessRule{
			Type: api.SuccessRuleType(r.Type), Header: optional(r.Header), JSONPath: optional(r.JSONPath), Value: r.Value,
			Expression: optional(r.Expression),
		}
		if r.Op != "" {
			rule.Op = new(api.SuccessRuleOp(r.Op))
		}
		if r.MaxLatencyMs != 0 {
			rule.MaxLatencyMs = new(r.MaxLatencyMs)
		}
		out = append(out, rule)
	}
	return optionalList(out)
}

func redactDocument(rules []endpoints.RedactRule) *[]api.RedactRule {
	out := make([]api.RedactRule, 0, len(rules))
	for _, r := range rules {
		out = append(out, api.RedactRule{
			Header: optional(r.Header), JSONPath: optional(r.JSONPath), Pattern: optional(r.Pattern), Replacement: optional(r.Replacement),
		})
	}
	return optionalList(out)
}

// elements returns the elements of a list that may be absent.
func elements[T any](list *[]T) []T {
	if list == nil {
		return nil
	}
	return *list
}

func optionalList[T any](list []T) *[]T {
	if len(list) == 0 {
		return nil
	}
	return &list
}

// orEmpty returns a text for which empty and absent are the same.
func orEmpty(given *string) string {
	if given == nil {
		return ""
	}
	return *given
}
