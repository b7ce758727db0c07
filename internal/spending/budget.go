// Package spending is about budgets of runs that endpoints share: that of a tenant, of a host, or
// of a label. A shared budget has one price of a run, which steers the tempo of all its endpoints.
// An endpoint's own budget is part of its configuration instead; see [rubato/internal/endpoints].
package spending

import (
	"fmt"
	"strings"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
	"rubato/internal/tempo"
)

// MaxPerTenant bounds the budgets of a tenant, because every worker caches all of them.
const MaxPerTenant = 1000

// maxName bounds the name of a budget in bytes: a label's name and value with their prefix.
const maxName = 400

// Tenant is the name of the budget of all endpoints of a tenant.
const Tenant = "tenant"

const (
	hostPrefix  = "host:"
	labelPrefix = "label:"
)

// Budget is a shared budget.
type Budget struct {
	TenantID [16]byte
	// Name is [Tenant], host:shop.example.com or label:team=shop.
	Name string
	// Text is the number of runs, such as 600/h.
	Text string
	// Price is the present price of a run, in change-seconds.
	Price     float64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Check returns the faults of a name and a number of runs as an [errs.Invalid].
func Check(name, text string) error {
	var bad []errs.Field
	if !ValidName(name) {
		bad = append(bad, errs.Field{
			Field:   "name",
			Code:    "invalid_value",
			Message: "must be tenant, host: with a host name such as host:shop.example.com, or label: with a label such as label:team=shop",
		})
	}
	if _, err := tempo.ParseBudget(text); err != nil {
		bad = append(bad, errs.Field{
			Field:   "budget",
			Code:    "invalid_value",
			Message: "must be " + tempo.BudgetForm,
		})
	}
	return errs.InvalidFields(bad)
}

// ValidName reports whether a text is the name of a budget.
func ValidName(name string) bool {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return false
	}
	if host, is := strings.CutPrefix(name, hostPrefix); is {
		return host != "" && host == strings.ToLower(host) && !strings.ContainsAny(host, " /?#@=")
	}
	if label, is := strings.CutPrefix(name, labelPrefix); is {
		key, _, pair := strings.Cut(label, "=")
		return pair && key != ""
	}
	return name == Tenant
}

// Object returns the budget as the object of an entry of the audit log.
func (b Budget) Object() auditlog.Object { return auditlog.Object{Kind: auditlog.Budget, ID: b.Name} }

// Redacted returns the budget in its form for the audit log. The price is left out, because workers
// move it.
func (b Budget) Redacted() map[string]any { return map[string]any{"name": b.Name, "budget": b.Text} }

// Shown returns the name of a budget with its number of runs, for decisions.
func (b Budget) Shown() string { return fmt.Sprintf("%s of %s", b.Text, b.Name) }
