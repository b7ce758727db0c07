package dev

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/secrets"
)

func TestDevServerCreatesItsSecretKeyOnce(t *testing.T) {
	t.Parallel()
	dir := opened(t)

	first, err := dir.secretKeys()
	require.NoError(t, err)
	require.Len(t, first, 1)
	require.Len(t, first[0].Bytes, secrets.KeySize)
	again, err := dir.secretKeys()
	require.NoError(t, err)
	require.Equal(t, first, again, "what was encrypted yesterday can be read today")
	info, err := os.Stat(filepath.Join(dir.path, secretKeysFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	other, err := opened(t).secretKeys()
	require.NoError(t, err)
	require.NotEqual(t, first[0].Bytes, other[0].Bytes)

	require.NoError(t, os.WriteFile(dir.in(secretKeysFile), []byte("{"), 0o600))
	_, err = dir.secretKeys()
	require.ErrorContains(t, err, "reading the keys that secrets are encrypted under", "a broken file is not replaced: its keys may be all there is")
}
