package dev

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandLineFindsTheDevServerInAnyDataDir(t *testing.T) {
	t.Parallel()
	home := Home{dir: filepath.Join(t.TempDir(), "home")}
	dir := opened(t)
	want := Credentials{URL: "http://127.0.0.1:4711", Key: "rbt_secret"}

	_, err := home.FindServer()
	require.ErrorIs(t, err, ErrNoServer)

	require.NoError(t, dir.saveCredentials(want))
	require.NoError(t, home.announce(dir.in(credentialsFile)))
	got, err := home.FindServer()
	require.NoError(t, err)
	require.Equal(t, want, got)

	home.retract()
	_, err = home.FindServer()
	require.ErrorIs(t, err, ErrNoServer)
}

func TestDevServerThatWasKilledIsNotFound(t *testing.T) {
	t.Parallel()
	home := Home{dir: t.TempDir()}
	ended := exec.CommandContext(t.Context(), "true")
	require.NoError(t, ended.Run())
	require.NoError(t, writeJSON(filepath.Join(home.dir, runningFile), running{PID: ended.Process.Pid, Credentials: "/nowhere"}))

	_, err := home.FindServer()

	require.ErrorIs(t, err, ErrNoServer)
}

func TestStoppingDevServerKeepsTheRecordOfAnother(t *testing.T) {
	t.Parallel()
	home := Home{dir: t.TempDir()}
	note := filepath.Join(home.dir, runningFile)
	require.NoError(t, writeJSON(note, running{PID: os.Getppid(), Credentials: "/elsewhere"}))

	home.retract()

	require.FileExists(t, note)
}

func TestCredentialsFileIsPrivateToItsOwner(t *testing.T) {
	t.Parallel()
	dir := opened(t)
	require.NoError(t, dir.saveCredentials(Credentials{URL: "http://127.0.0.1:1", Key: "first"}))
	require.NoError(t, dir.saveCredentials(Credentials{URL: "http://127.0.0.1:2", Key: "second"}))

	info, err := os.Stat(dir.in(credentialsFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(dir.in(credentialsFile))
	require.NoError(t, err)
	require.JSONEq(t, `{"url":"http://127.0.0.1:2","key":"second"}`, string(text))
	entries, err := os.ReadDir(dir.path)
	require.NoError(t, err)
	require.Len(t, entries, 2, "the credentials and the lock, and nothing half written")
}

func TestDevServerReusesTheKeyOfTheLastStart(t *testing.T) {
	t.Parallel()
	dir := opened(t)
	key, err := dir.savedKey()
	require.NoError(t, err)
	require.Empty(t, key, "there was no start before")

	require.NoError(t, dir.saveCredentials(Credentials{Key: "kept"}))
	key, err = dir.savedKey()
	require.NoError(t, err)
	require.Equal(t, "kept", key)

	require.NoError(t, os.WriteFile(dir.in(credentialsFile), []byte("{"), 0o600))
	_, err = dir.savedKey()
	require.ErrorContains(t, err, "delete the file to get a new key")
}

func opened(t *testing.T) *dataDir {
	t.Helper()
	dir, err := openDataDir(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(dir.close)
	return dir
}
