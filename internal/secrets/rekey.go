package secrets

import (
	"context"
	"fmt"
)

// Resealer seals again what is sealed under other keys than the newest.
type Resealer interface {
	// Reseal hands a batch of values that are sealed under another key than newest to reseal, one by one, and stores what it returns.
	// A value whose reseal fails stays as it is, and is not handed out again by later calls on the same pass. more is false once
	// every value was handed out.
	Reseal(ctx context.Context, pass *Pass, newest string, reseal func(Kept) (Sealed, error)) (more bool, err error)
}

// Pass is how far a rekeying has come.
type Pass struct {
	Done   int      // values that are sealed under the newest key now
	Failed []string // values that cannot be opened: what they are, and why

	AfterTenant  [16]byte // the place of the last secret
	AfterName    string
	AfterSigning [16]byte // the last signing key
}

// Rekey seals everything under the newest key, batch by batch: it may be interrupted and repeated. Values stay what they are, so no
// version changes.
func (r *Keyring) Rekey(ctx context.Context, store Resealer) (*Pass, error) {
	pass := &Pass{}
	newest := r.Newest()
	if newest == "" {
		return pass, ErrNoKeys
	}
	for more := true; more; {
		var err error
		if more, err = store.Reseal(ctx, pass, newest, func(k Kept) (Sealed, error) { return r.reseal(pass, k) }); err != nil {
			return pass, fmt.Errorf("sealing secrets under %q, %d done so far: %w", newest, pass.Done, err)
		}
	}
	return pass, nil
}

func (r *Keyring) reseal(pass *Pass, k Kept) (Sealed, error) {
	value, err := r.Open(k.Place, k.Sealed)
	if err != nil {
		pass.Failed = append(pass.Failed, fmt.Sprintf("%s %q: %s", k.Kind, k.Name, err))
		return Sealed{}, err
	}
	return r.Seal(k.Place, value.Reveal())
}
