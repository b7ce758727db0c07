package secrets

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// shop is a store of secrets in memory.
type shop struct {
	mu     sync.Mutex
	has    Contents
	err    error
	reads  int
	stamps [][]Use
}

func (s *shop) SealedSecrets(context.Context, [16]byte) (Contents, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.has, s.err
}

func (s *shop) StampSecrets(_ context.Context, uses []Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stamps = append(s.stamps, uses)
	return s.err
}

func (s *shop) SampleSecrets(context.Context) ([]StoredValue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.has.Secrets, s.err
}

// keep seals values for a tenant.
func (s *shop) keep(t *testing.T, r *Keyring, version int64, values map[string]string) {
	t.Helper()
	has := Contents{Version: version}
	for name, value := range values {
		identity := Identity{Tenant: [16]byte{1}, Kind: Named, Name: name}
		sealed, err := r.Seal(identity, value)
		require.NoError(t, err)
		has.Secrets = append(has.Secrets, StoredValue{Identity: identity, Sealed: sealed})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has = has
}

func TestVaultReadsEachVersionOnce(t *testing.T) {
	t.Parallel()
	source, r := &shop{}, ring(t, "k1")
	source.keep(t, r, 3, map[string]string{"token": "first"})
	vault := NewVault(source, r, slog.New(slog.DiscardHandler))
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			set, err := vault.At(t.Context(), [16]byte{1}, 3)
			if err != nil || set.Version() != 3 {
				t.Errorf("version %d: %v", set.Version(), err)
			}
		})
	}
	asking.Wait()
	require.Equal(t, 1, source.reads)

	source.keep(t, r, 5, map[string]string{"token": "second"})
	set, err := vault.At(t.Context(), [16]byte{1}, 4)
	require.NoError(t, err)
	value, err := set.Secret("token")
	require.NoError(t, err)
	require.Equal(t, "second", value)
	_, err = vault.At(t.Context(), [16]byte{1}, 3)
	require.NoError(t, err)
	require.Equal(t, 2, source.reads, "a later version does as well")
}

func TestVaultRetriesAfterAFailedRead(t *testing.T) {
	t.Parallel()
	source, r := &shop{err: errors.New("the database is away")}, ring(t, "k1")
	vault := NewVault(source, r, slog.New(slog.DiscardHandler))
	_, err := vault.At(t.Context(), [16]byte{1}, 1)
	require.ErrorContains(t, err, "the database is away")

	source.err = nil
	source.keep(t, r, 1, nil)
	_, err = vault.At(t.Context(), [16]byte{1}, 1)
	require.NoError(t, err)
}

// TestOneUnreadableSecretLeavesTheOthersReadable: a worker without the key of one secret still
// reads the others.
func TestOneUnreadableSecretLeavesTheOthersReadable(t *testing.T) {
	t.Parallel()
	source, r := &shop{}, ring(t, "k1")
	source.keep(t, ring(t, "k2"), 1, map[string]string{"lost": canary})
	lost := source.has.Secrets
	source.keep(t, r, 1, map[string]string{"token": "value"})
	source.has.Secrets = append(source.has.Secrets, lost...)
	source.has.SigningKeys = lost
	vault := NewVault(source, r, slog.New(slog.DiscardHandler))

	set, err := vault.At(t.Context(), [16]byte{1}, 1)

	require.NoError(t, err)
	_, err = set.Secret("token")
	require.NoError(t, err)
	_, err = set.Secret("lost")
	require.ErrorIs(t, err, ErrUnreadable)
	require.ErrorContains(t, err, `secret "lost"`)
	_, err = set.SigningKeys(time.Now())
	require.ErrorIs(t, err, ErrUnreadable)
}

func TestSecretUsesAreRecordedInBatchesAndAtShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &shop{}
		vault := NewVault(source, nil, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); vault.Run(ctx) }()
		for range 10 {
			vault.Used([16]byte{1}, []string{"a", "b"}, [16]byte{7})
		}
		time.Sleep(stampPeriod + time.Second)
		// Elapsed time alone is no synchronization. Wait makes the other goroutine's writes visible
		// here.
		synctest.Wait()
		require.Len(t, source.stamps, 1)
		require.Len(t, source.stamps[0], 2)
		vault.Used([16]byte{1}, []string{"c"}, [16]byte{8})
		stop()
		<-ended
		require.Equal(t, []Use{{Tenant: [16]byte{1}, Name: "c", Endpoint: [16]byte{8}}}, source.stamps[1])
	})
}

func TestCheckerNamesTheKeyThatIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &shop{}
		source.keep(t, ring(t, "k1"), 1, map[string]string{"token": canary})
		checker := NewChecker(source, ring(t, "k2"))

		err := checker.Check(t.Context())
		require.ErrorIs(t, err, ErrUnreadable)
		require.ErrorContains(t, err, `"k1" is missing; see RUBATO_SECRET_KEYS`)
		require.Error(t, checker.Check(t.Context()))
		require.Equal(t, 1, source.reads, "an answer is believed for a while")

		source.keep(t, ring(t, "k2"), 1, map[string]string{"token": canary})
		time.Sleep(checkLife)
		require.NoError(t, checker.Check(t.Context()))
		require.NoError(t, NewChecker(&shop{}, nil).Check(t.Context()), "without secrets no key is needed")
	})
}

func TestCheckerIgnoresDatabaseOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &shop{err: errors.New("failed to connect to `user=rubato`: 10.0.0.7:5432")}
		source.keep(t, ring(t, "k1"), 1, map[string]string{"token": canary})
		held, lacked := NewChecker(source, ring(t, "k1")), NewChecker(source, ring(t, "k2"))
		require.Equal(t, errUnasked, held.Check(t.Context()), "what everybody may read names no database")

		source.err = nil
		require.NoError(t, held.Check(t.Context()))
		require.ErrorIs(t, lacked.Check(t.Context()), ErrUnreadable)

		source.err = errors.New("failed to connect")
		time.Sleep(checkLife)
		require.NoError(t, held.Check(t.Context()), "no key is missing because nobody can be asked")
		require.ErrorIs(t, lacked.Check(t.Context()), ErrUnreadable)
	})
}
