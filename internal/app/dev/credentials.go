package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"rubato/internal/web"
)

const (
	credentialsFile = "credentials.json" // in a data directory
	runningFile     = "running.json"     // in the user's Home
)

// Credentials say how to reach a server.
type Credentials struct {
	URL string `json:"url"`
	Key string `json:"key"`
	// Console opens the console for its first visitor, without a key; empty where a server that runs already is meant.
	Console string `json:"-"`

	ticket *web.Ticket
}

// withTicket returns the credentials with a fresh link to the console.
func (c Credentials) withTicket() Credentials {
	c.ticket = web.NewTicket(c.Key)
	c.Console = c.URL + c.ticket.Path()
	return c
}

// ErrNoServer means that no dev server of this user runs.
var ErrNoServer = errors.New("no dev server runs here: start one with `rubato dev`, or name a server with --server and --api-key")

// running is the note that says which dev server runs, so that the command line finds it whatever its data directory.
type running struct {
	PID         int    `json:"pid"`
	Credentials string `json:"credentials"` // path of its credentials.json
}

// FindServer returns the credentials of the dev server that was started last, if it still runs. The error is [ErrNoServer] where
// none does.
func (h Home) FindServer() (Credentials, error) {
	var note running
	if h.check() != nil || readJSON(filepath.Join(h.dir, runningFile), &note) != nil || !alive(note.PID) {
		return Credentials{}, ErrNoServer
	}
	var c Credentials
	if err := readJSON(note.Credentials, &c); err != nil {
		return Credentials{}, fmt.Errorf("reading how to reach the dev server: %w", err)
	}
	return c, nil
}

// announce notes that this process serves the credentials in a file.
func (h Home) announce(credentials string) error {
	if err := h.make(); err != nil {
		return err
	}
	return writeJSON(filepath.Join(h.dir, runningFile), running{PID: os.Getpid(), Credentials: credentials})
}

// retract removes the note, unless another dev server has written its own meanwhile.
func (h Home) retract() {
	path := filepath.Join(h.dir, runningFile)
	var note running
	if err := readJSON(path, &note); err == nil && note.PID == os.Getpid() {
		_ = os.Remove(path) // One that stays is seen to be stale.
	}
}

// alive reports whether a process runs. One that belongs to another user does, although it may not be signalled.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// keptKey returns the key that an earlier dev server of the directory served, or nothing.
func (d *dataDir) keptKey() (string, error) {
	var c Credentials
	err := readJSON(d.in(credentialsFile), &c)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the key of the last start: %w; delete the file to get a new key", err)
	}
	return c.Key, nil
}

// keep writes the credentials for scripts, the command line and the next start.
func (d *dataDir) keep(c Credentials) error { return writeJSON(d.in(credentialsFile), c) }

func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file that only its owner may read, in one step: a reader sees the old text or the new.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	side, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // Mode 0600.
	if err != nil {
		return err
	}
	_, err = side.Write(append(text, '\n'))
	if err = errors.Join(err, side.Close()); err == nil {
		err = os.Rename(side.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(side.Name()))
	}
	return nil
}
