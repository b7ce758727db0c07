package app

import (
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// Targets validates URLs and headers of endpoints against the egress rules of their later calls.
type Targets struct {
	policy *egress.Policy
	// skipVerify permits endpoints that do not verify TLS certificates.
	skipVerify bool
	// tenants holds the allow lists of tenants; nil if there are none.
	tenants *Allowances
}

var (
	_ endpoints.Targets     = Targets{}
	_ endpoints.Permissions = Targets{}
)

// NewTargets returns a validator with the operator's rules alone. skipVerify permits endpoints that
// do not verify TLS certificates.
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
