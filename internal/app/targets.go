package app

import (
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// Targets judges what may be registered by the rules under which it will be called.
type Targets struct {
	policy     *egress.Policy
	skipVerify bool        // endpoints may trust whoever answers
	tenants    *Allowances // nil: all may call the same
}

var (
	_ endpoints.Targets     = Targets{}
	_ endpoints.Permissions = Targets{}
)

// NewTargets returns the judge by the rules of the operator alone. skipVerify says whether endpoints may trust whoever answers.
func NewTargets(rules egress.Rules, skipVerify bool) Targets {
	return Targets{policy: egress.NewPolicy(rules), skipVerify: skipVerify}
}

// CheckURL implements [endpoints.Targets].
func (t Targets) CheckURL(url string) *errs.Field { return complaint(t.policy.CheckURL(url)) }

// CheckHeader implements [endpoints.Targets].
func (t Targets) CheckHeader(name, value string) *errs.Field {
	return complaint(egress.CheckHeader(name, value))
}

// PermitsSkipVerify implements [endpoints.Permissions].
func (t Targets) PermitsSkipVerify() bool { return t.skipVerify }

// For implements [endpoints.Permissions].
func (t Targets) For(tenant [16]byte) endpoints.Targets {
	if t.tenants == nil {
		return t
	}
	return Targets{policy: t.policy.With(t.tenants.Of(tenant)), skipVerify: t.skipVerify}
}

func complaint(v *egress.Violation) *errs.Field {
	if v == nil {
		return nil
	}
	return &errs.Field{Code: v.Code, Message: v.Message}
}
