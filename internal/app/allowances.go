package app

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"rubato/internal/egress"
)

// allowanceInterval is how soon a change of what a tenant may call is in force.
const allowanceInterval = 5 * time.Second

// allowanceReader reads what tenants may call besides what everybody may.
type allowanceReader interface {
	Allowed(ctx context.Context) (map[[16]byte][]string, error)
}

// Allowances know what each tenant may call besides what everybody may. Asking them costs a look into a map that is in memory.
type Allowances struct {
	reader allowanceReader
	logger *slog.Logger
	found  atomic.Pointer[map[[16]byte]*egress.Allowance]
}

func newAllowances(reader allowanceReader, logger *slog.Logger) *Allowances {
	return &Allowances{reader: reader, logger: logger}
}

// Of returns what a tenant may call besides what everybody may, or nil.
func (a *Allowances) Of(tenant [16]byte) *egress.Allowance {
	if found := a.found.Load(); found != nil {
		return (*found)[tenant]
	}
	return nil
}

// Run keeps them up to date until ctx ends. While they cannot be read, what was read last stays in force.
func (a *Allowances) Run(ctx context.Context) {
	ticker := time.NewTicker(allowanceInterval)
	defer ticker.Stop()
	for failing := false; ; {
		err := a.Refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			a.logger.Warn("what tenants may call cannot be read; what was read last stays in force", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Refresh reads them now. Where that fails, what was read last stays in force.
func (a *Allowances) Refresh(ctx context.Context) error {
	texts, err := a.reader.Allowed(ctx)
	if err != nil {
		return err
	}
	found := make(map[[16]byte]*egress.Allowance, len(texts))
	for tenant, entries := range texts {
		found[tenant] = allowanceOf(entries)
	}
	a.found.Store(&found)
	return nil
}

// allowanceOf reads entries, each a prefix or a host. What is neither opens nothing.
func allowanceOf(entries []string) *egress.Allowance {
	out := new(egress.Allowance)
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			out.Prefixes = append(out.Prefixes, prefix.Masked())
		} else if egress.ValidHost(entry) {
			out.Hosts = append(out.Hosts, entry)
		}
	}
	return out
}

// badAllowances returns the entries that name neither a prefix nor a host.
func badAllowances(entries []string) []string {
	return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool {
		_, err := netip.ParsePrefix(entry)
		return err == nil || egress.ValidHost(entry)
	})
}
