package secrets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sampler finds out what things are sealed under.
type Sampler interface {
	// SampleSecrets returns one sealed value for each key that there are values sealed under.
	SampleSecrets(ctx context.Context) ([]Kept, error)
}

// checkLife is how long what a [Checker] found out is believed: rows change under it only where somebody uses another keyring.
const checkLife = 10 * time.Second

// errUnasked says that it is not known yet whether the keyring has every key.
var errUnasked = errors.New("which keys secrets are encrypted under could not be read yet")

// Checker finds out whether a keyring opens what is stored. It is safe for concurrent use.
type Checker struct {
	sampler Sampler
	keyring *Keyring

	mu    sync.Mutex
	asked time.Time
	fault error
}

// NewChecker returns a checker of a keyring.
func NewChecker(sampler Sampler, keyring *Keyring) *Checker {
	return &Checker{sampler: sampler, keyring: keyring}
}

// Check returns nil where the keyring has every key that values are sealed under. The error names the first key that is missing or is
// another one. While nobody can be asked it says what it found last: that the database is away is for other checks to say.
func (c *Checker) Check(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < checkLife {
		return c.fault
	}
	samples, err := c.sampler.SampleSecrets(ctx)
	switch {
	case err != nil && c.asked.IsZero():
		return errUnasked // Without its cause, which names the database and its user: everybody may read a check.
	case err != nil:
		return c.fault
	}
	c.asked, c.fault = time.Now(), c.judge(samples)
	return c.fault
}

func (c *Checker) judge(samples []Kept) error {
	for _, s := range samples {
		if _, err := c.keyring.Open(s.Place, s.Sealed); err != nil {
			return fmt.Errorf("a %s cannot be read: %w; see RUBATO_SECRET_KEYS", s.Kind, err)
		}
	}
	return nil
}
