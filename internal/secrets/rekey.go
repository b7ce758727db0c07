package secrets

import (
	"context"
	"fmt"
)

// Resealer re-encrypts values that are sealed under old keys.
type Resealer interface {
	// Reseal passes a batch of values that are sealed under another key than newest to reseal, one
	// by one, and stores the results. If reseal fails, the value stays as it is, and later calls of
	// the same pass skip it. more is false after the last value.
	Reseal(ctx context.Context, pass *Pass, newest string, reseal func(Kept) (Sealed, error)) (more bool, err error)
}

// Pass is the progress of a rekeying.
type Pass struct {
	// Done counts the values that were re-encrypted.
	Done int
	// Failed describes the values that cannot be opened, and the cause of each.
	Failed []string

	// AfterTenant and AfterName are the cursor of secrets.
	AfterTenant [16]byte
	AfterName   string
	// AfterSigning is the cursor of signing keys.
	AfterSigning [16]byte
	// AfterLetter is the cursor of dead letters.
	AfterLetter [16]byte
}

// Rekey re-encrypts all values under the newest key, in batches. It may be interrupted and
// repeated. Versions stay, because the values do.
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
