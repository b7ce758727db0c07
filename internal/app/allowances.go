package app

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"rubato/internal/egress"
	"rubato/internal/loop"
)

// allowanceInterval is the poll interval for allow lists: a change takes effect within it.
const allowanceInterval = 5 * time.Second

// allowanceReader reads the egress allow list of each tenant.
type allowanceReader interface {
	Allowed(ctx context.Context) (map[[16]byte][]string, error)
}

// Allowances caches the egress allow list of each tenant. A tenant may call its own list in
// addition to the list of the installation. Lookups read a map in memory and are safe for
// concurrent use.
type Allowances struct {
	reader allowanceReader
	logger *slog.Logger
	found  atomic.Pointer[map[[16]byte]*egress.Allowance]
}

func newAllowances(reader allowanceReader, logger *slog.Logger) *Allowances {
	return &Allowances{reader: reader, logger: logger}
}

// Of returns the allow list of a tenant, or nil if it has none.
func (a *Allowances) Of(tenant [16]byte) *egress.Allowance {
	if found := a.found.Load(); found != nil {
		return (*found)[tenant]
	}
	return nil
}

// Run refreshes the cache until ctx ends. While the database cannot be read, the lists of the last
// successful read stay in force.
func (a *Allowances) Run(ctx context.Context) {
	loop.Poll(ctx, allowanceInterval, a.Refresh, func(err error) {
		a.logger.Warn("reading egress allow lists failed; the lists of the last read stay in force", "error", err)
	})
}

// Refresh reads all lists now. On an error the cached lists stay in force.
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

// allowanceOf parses entries, each a prefix or a host. It ignores an entry that is neither, so that
// a malformed entry never permits a call.
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

// badAllowances returns the entries that are neither a prefix nor a host.
func badAllowances(entries []string) []string {
	return slices.DeleteFunc(slices.Clone(entries), func(entry string) bool {
		_, err := netip.ParsePrefix(entry)
		return err == nil || egress.ValidHost(entry)
	})
}
