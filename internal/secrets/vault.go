package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxTenants bounds the cache. On overflow it is emptied.
	maxTenants = 1000
	// stampPeriod is the interval at which the uses of secrets are written; stampTimeout bounds one
	// write.
	stampPeriod  = 30 * time.Second
	stampTimeout = 5 * time.Second
)

// Source reads sealed secrets from the database.
type Source interface {
	// SealedSecrets returns all secrets and signing keys of a tenant at one version.
	SealedSecrets(ctx context.Context, tenant [16]byte) (Contents, error)
	// StampSecrets records the last use of secrets.
	StampSecrets(ctx context.Context, uses []Use) error
}

// Use is the last use of a secret.
type Use struct {
	Tenant   [16]byte
	Name     string
	Endpoint [16]byte
}

// Vault caches the decrypted secrets of tenants. A set is valid as long as its version is current.
// Vault is safe for concurrent use.
type Vault struct {
	source  Source
	keyring *Keyring
	logger  *slog.Logger

	mu      sync.Mutex // guards the fields below
	entries map[[16]byte]*vaultEntry
	// uses holds the last user of each secret since the last write.
	uses map[useOf][16]byte
}

// vaultEntry is the cached set of one tenant.
type vaultEntry struct {
	// mu is held while the set is read, so that concurrent callers share one query.
	mu  sync.Mutex
	set *Set
}

type useOf struct {
	tenant [16]byte
	name   string
}

// NewVault returns a vault over a source. The keyring opens its values.
func NewVault(source Source, keyring *Keyring, logger *slog.Logger) *Vault {
	return &Vault{
		source:  source,
		keyring: keyring,
		logger:  logger.With("component", "secrets"),
		entries: map[[16]byte]*vaultEntry{},
		uses:    map[useOf][16]byte{},
	}
}

// At returns the secrets of a tenant at a version or a later one. A cache hit needs no query.
func (v *Vault) At(ctx context.Context, tenant [16]byte, version int64) (*Set, error) {
	s := v.entry(tenant)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set != nil && s.set.version >= version {
		return s.set, nil
	}
	contents, err := v.source.SealedSecrets(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("reading the secrets of a tenant at version %d: %w", version, err)
	}
	s.set = v.keyring.open(contents)
	return s.set, nil
}

func (v *Vault) entry(tenant [16]byte) *vaultEntry {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.entries[tenant]
	if s == nil {
		if len(v.entries) == maxTenants {
			clear(v.entries)
		}
		s = &vaultEntry{}
		v.entries[tenant] = s
	}
	return s
}

// Used records that a run of an endpoint used secrets. It only updates memory; [Vault.Run] writes
// the uses.
func (v *Vault) Used(tenant [16]byte, names []string, endpoint [16]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		v.uses[useOf{tenant, name}] = endpoint
	}
}

// Run writes the uses to the source every half minute until ctx ends, and once more then.
func (v *Vault) Run(ctx context.Context) {
	ticker := time.NewTicker(stampPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			v.stamp(context.WithoutCancel(ctx))
			return
		case <-ticker.C:
			v.stamp(ctx)
		}
	}
}

// stamp writes the uses since the last call. After an error they are dropped, because the next use
// follows soon.
func (v *Vault) stamp(ctx context.Context) {
	v.mu.Lock()
	uses := make([]Use, 0, len(v.uses))
	for of, endpoint := range v.uses {
		uses = append(uses, Use{
			Tenant:   of.tenant,
			Name:     of.name,
			Endpoint: endpoint,
		})
	}
	clear(v.uses)
	v.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stampTimeout)
	defer cancel()
	if err := v.source.StampSecrets(ctx, uses); err != nil {
		v.logger.Warn("recording the use of secrets failed", "secrets", len(uses), "error", err)
	}
}
