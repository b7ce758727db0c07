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
	Reseal(ctx context.Context, pass *RekeyProgress, newest string, reseal func(StoredValue) (Sealed, error)) (more bool, err error)
}

// RekeyProgress is the progress of a rekeying.
type RekeyProgress struct {
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
func (r *Keyring) Rekey(ctx context.Context, store Resealer) (*RekeyProgress, error) {
	pass := &RekeyProgress{}
	newest := r.Newest()
	if newest == "" {
		return pass, ErrNoKeys
	}
	for more := true; more; {
		var err error
		if more, err = store.Reseal(ctx, pass, newest, func(k StoredValue) (Sealed, error) { return r.reseal(pass, k) }); err != nil {
			return pass, fmt.Errorf("sealing secrets under %q, %d done so far: %w", newest, pass.Done, err)
		}
	}
	return pass, nil
}

func (r *Keyring) reseal(pass *RekeyProgress, k StoredValue) (Sealed, error) {
	value, err := r.Open(k.Identity, k.Sealed)
	if err != nil {
		pass.Failed = append(pass.Failed, fmt.Sprintf("%s %q: %s", k.Kind, k.Name, err))
		return Sealed{}, err
	}
	return r.Seal(k.Identity, value.Reveal())
}
