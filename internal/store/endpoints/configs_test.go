package endpoints

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// TestConfigurationCacheEvictsUnused adds more than it may hold while one endpoint is claimed again
// and again.
func TestConfigurationCacheEvictsUnused(t *testing.T) {
	t.Parallel()
	c := newConfigs(testSlots)
	used := endpoints.ID{0xff}
	c.put([]*Config{configOf(used, 1)})
	for i := range 100_000 {
		c.put([]*Config{configOf(numbered(i), 1)})
		if i%1000 == 0 {
			found, missing := c.find(map[[16]byte]int64{used: 1})
			require.Len(t, found, 1, "after %d others", i)
			require.Empty(t, missing)
			c.claimed(found)
		}
		require.LessOrEqual(t, len(c.known)*configBytes, c.room)
	}
}

// TestFinishUsesConfigurationCachedByClaim claims endpoints that run once, each of which ends when
// as many others have been claimed as fit beside it.
func TestFinishUsesConfigurationCachedByClaim(t *testing.T) {
	t.Parallel()
	const between = 3*testSlots - 1
	c := newConfigs(testSlots)
	for i := range 5 * between {
		c.put([]*Config{configOf(numbered(i), 1)})
		if ended := i - between; ended >= 0 {
			_, missing := c.find(map[[16]byte]int64{numbered(ended): 1})
			require.Empty(t, missing, "after %d", i)
		}
	}
}

func TestTheCacheOfConfigurationsCountsLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256<<10)
	for name, set := range map[string]func(s *endpoints.Spec){
		"Body":    func(s *endpoints.Spec) { s.Body = long },
		"Headers": func(s *endpoints.Spec) { s.Headers = map[string]string{"X-Long": long} },
		"Query":   func(s *endpoints.Spec) { s.Query = map[string]string{"long": long} },
		"Labels":  func(s *endpoints.Spec) { s.Labels = map[string]string{"long": long} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConfigs(testSlots)
			for i := range 200 {
				added := configOf(numbered(i), 1)
				set(&added.spec)
				c.put([]*Config{added})
				require.LessOrEqual(t, len(c.known)*len(long), c.room)
			}
		})
	}
}

func TestConfigurationCacheIsKeyedByVersion(t *testing.T) {
	t.Parallel()
	c := newConfigs(testSlots)
	id := endpoints.ID{1}
	c.put([]*Config{configOf(id, 1)})
	found, missing := c.find(map[[16]byte]int64{id: 2})
	require.Empty(t, found)
	require.Equal(t, [][16]byte{id}, missing)
	c.put([]*Config{configOf(id, 2)})
	found, _ = c.find(map[[16]byte]int64{id: 2})
	require.Len(t, found, 1)
	require.Len(t, c.known, 1)
	require.Equal(t, configBytes, c.bytes, "the older version is not counted any more")
}

// testSlots is how many slots the worker of these tests has.
const testSlots = 1000

func configOf(id endpoints.ID, version int64) *Config {
	return &Config{id: id, version: version}
}

func numbered(n int) endpoints.ID {
	return endpoints.ID{1: byte(n >> 16), 2: byte(n >> 8), 3: byte(n)}
}
