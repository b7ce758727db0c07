package secrets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sampler reads samples of sealed values.
type Sampler interface {
	// SampleSecrets returns one sealed value for each encryption key in use.
	SampleSecrets(ctx context.Context) ([]StoredValue, error)
}

// checkLife is the lifetime of a cached result. The answer changes only after a restart with
// another keyring.
const checkLife = 10 * time.Second

// errUnasked is the result before the first successful query.
var errUnasked = errors.New("which keys secrets are encrypted under could not be read yet")

// Checker reports whether a keyring opens the stored values. It is safe for concurrent use.
type Checker struct {
	sampler Sampler
	keyring *Keyring

	mu    sync.Mutex // guards the fields below
	asked time.Time
	fault error
}

// NewChecker returns a checker of a keyring.
func NewChecker(sampler Sampler, keyring *Keyring) *Checker {
	return &Checker{sampler: sampler, keyring: keyring}
}

// Check returns nil if the keyring holds every key in use. The error names the first key that is
// missing or differs. If the database cannot be queried, Check returns the last result, because
// other checks report that outage.
func (c *Checker) Check(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < checkLife {
		return c.fault
	}
	samples, err := c.sampler.SampleSecrets(ctx)
	switch {
	case err != nil && c.asked.IsZero():
		return errUnasked // Without the cause, because checks are public and the cause names the database and its user.
	case err != nil:
		return c.fault
	}
	c.asked, c.fault = time.Now(), c.judge(samples)
	return c.fault
}

func (c *Checker) judge(samples []StoredValue) error {
	for _, s := range samples {
		if _, err := c.keyring.Open(s.Identity, s.Sealed); err != nil {
			return fmt.Errorf("a %s cannot be read: %w; see RUBATO_SECRET_KEYS", s.Kind, err)
		}
	}
	return nil
}
