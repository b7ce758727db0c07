package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// maxShelves is of how many tenants a vault remembers the secrets. One more, and it begins anew.
	maxShelves = 1000
	// stampPeriod is how often the uses of secrets are noted, and stampTimeout bounds one such note.
	stampPeriod  = 30 * time.Second
	stampTimeout = 5 * time.Second
)

// Source reads what is sealed, for a worker.
type Source interface {
	// SealedSecrets returns everything that a tenant has, at one version.
	SealedSecrets(ctx context.Context, tenant [16]byte) (Contents, error)
	// StampSecrets notes that secrets were used.
	StampSecrets(ctx context.Context, uses []Use) error
}

// Use is the last use of a secret.
type Use struct {
	Tenant   [16]byte
	Name     string
	Endpoint [16]byte
}

// Vault remembers the secrets of tenants in the clear, each set as long as its version is current. It is safe for concurrent use.
type Vault struct {
	source  Source
	keyring *Keyring
	logger  *slog.Logger

	mu      sync.Mutex
	shelves map[[16]byte]*shelf
	uses    map[useOf][16]byte // since the last note
}

type shelf struct {
	mu  sync.Mutex // held while the set is read: who needs it meanwhile waits for it
	set *Set
}

type useOf struct {
	tenant [16]byte
	name   string
}

// NewVault returns a vault that reads a source with a keyring.
func NewVault(source Source, keyring *Keyring, logger *slog.Logger) *Vault {
	return &Vault{
		source: source, keyring: keyring, logger: logger.With("component", "secrets"),
		shelves: map[[16]byte]*shelf{}, uses: map[useOf][16]byte{},
	}
}

// At returns the secrets of a tenant at a version or a later one. It asks the source once for each version.
func (v *Vault) At(ctx context.Context, tenant [16]byte, version int64) (*Set, error) {
	s := v.shelf(tenant)
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

func (v *Vault) shelf(tenant [16]byte) *shelf {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.shelves[tenant]
	if s == nil {
		if len(v.shelves) == maxShelves {
			clear(v.shelves)
		}
		s = &shelf{}
		v.shelves[tenant] = s
	}
	return s
}

// Used notes that a run of an endpoint used secrets. It only remembers; [Vault.Run] tells the source.
func (v *Vault) Used(tenant [16]byte, names []string, endpoint [16]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range names {
		v.uses[useOf{tenant, name}] = endpoint
	}
}

// Run tells the source of uses every half minute until ctx ends, and once more then.
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

// stamp tells the source of the uses so far. What cannot be told is forgotten: the next use is soon.
func (v *Vault) stamp(ctx context.Context) {
	v.mu.Lock()
	uses := make([]Use, 0, len(v.uses))
	for of, endpoint := range v.uses {
		uses = append(uses, Use{Tenant: of.tenant, Name: of.name, Endpoint: endpoint})
	}
	clear(v.uses)
	v.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stampTimeout)
	defer cancel()
	if err := v.source.StampSecrets(ctx, uses); err != nil {
		v.logger.Warn("noting the use of secrets failed; their next use is noted", "secrets", len(uses), "error", err)
	}
}
