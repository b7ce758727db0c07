package store

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// TestTheCacheOfConfigurationsStaysSmallAndKeepsWhatIsUsed adds more than it may hold while one endpoint is asked for again and again.
func TestTheCacheOfConfigurationsStaysSmallAndKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := newConfigs()
	used := endpoints.ID{0xff}
	c.put([]*config{configOf(used, 1, "")})
	for i := range 100_000 {
		id := endpoints.ID{1: byte(i >> 16), 2: byte(i >> 8), 3: byte(i)}
		c.put([]*config{configOf(id, 1, "")})
		if i%1000 == 0 {
			found, missing := c.find(map[[16]byte]int64{used: 1})
			require.Len(t, found, 1, "after %d others", i)
			require.Empty(t, missing)
		}
		require.LessOrEqual(t, (len(c.young)+len(c.old))*configBytes, maxConfigBytes)
	}
}

func TestTheCacheOfConfigurationsCountsLongTexts(t *testing.T) {
	t.Parallel()
	c := newConfigs()
	body := strings.Repeat("x", 256<<10)
	for i := range 1000 {
		c.put([]*config{configOf(endpoints.ID{1: byte(i >> 8), 2: byte(i)}, 1, body)})
		require.LessOrEqual(t, (len(c.young)+len(c.old))*len(body), maxConfigBytes)
	}
}

func TestTheCacheOfConfigurationsKnowsVersions(t *testing.T) {
	t.Parallel()
	c := newConfigs()
	id := endpoints.ID{1}
	c.put([]*config{configOf(id, 1, "")})
	found, missing := c.find(map[[16]byte]int64{id: 2})
	require.Empty(t, found)
	require.Equal(t, [][16]byte{id}, missing)
	c.put([]*config{configOf(id, 2, "")})
	found, _ = c.find(map[[16]byte]int64{id: 2})
	require.Len(t, found, 1)
}

func configOf(id endpoints.ID, version int64, body string) *config {
	c := &config{endpoint: endpoints.Endpoint{ID: id, Version: version}}
	c.endpoint.Spec.Body = body
	return c
}
