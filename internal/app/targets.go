package app

import (
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// targets judges what may be registered by the rules under which it will be called.
type targets struct {
	policy     *egress.Policy
	skipVerify bool        // endpoints may trust whoever answers
	tenants    *allowances // nil: all may call the same
}

var (
	_ endpoints.Targets     = targets{}
	_ endpoints.Permissions = targets{}
)

func newTargets(rules egress.Rules, skipVerify bool) targets {
	return targets{policy: egress.NewPolicy(rules), skipVerify: skipVerify}
}

// CheckURL implements [endpoints.Targets].
func (t targets) CheckURL(url string) *errs.Field { return complaint(t.policy.CheckURL(url)) }

// CheckHeader implements [endpoints.Targets].
func (t targets) CheckHeader(name, value string) *errs.Field {
	return complaint(egress.CheckHeader(name, value))
}

// PermitsSkipVerify implements [endpoints.Permissions].
func (t targets) PermitsSkipVerify() bool { return t.skipVerify }

// For implements [endpoints.Permissions].
func (t targets) For(tenant [16]byte) endpoints.Targets {
	if t.tenants == nil {
		return t
	}
	return targets{policy: t.policy.With(t.tenants.Of(tenant)), skipVerify: t.skipVerify}
}

func complaint(v *egress.Violation) *errs.Field {
	if v == nil {
		return nil
	}
	return &errs.Field{Code: v.Code, Message: v.Message}
}
