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
	// credentialsFile is in a data directory.
	credentialsFile = "credentials.json"
	// runningFile is in the user's Home.
	runningFile = "running.json"
)

// Credentials are the address and the API key of a server.
type Credentials struct {
	URL string `json:"url"`
	Key string `json:"key"`
	// Console is a link that opens the console once without a key. It is empty for a server that
	// another process runs.
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

// running names the dev server that runs, so that the command line finds it in any data directory.
type running struct {
	PID int `json:"pid"`
	// Credentials is the path of the server's credentials.json.
	Credentials string `json:"credentials"`
}

// FindServer returns the credentials of the dev server that was started last. If it does not run
// any more, the error is [ErrNoServer].
func (h Home) FindServer() (Credentials, error) {
	var note running
	if h.check() != nil || readJSON(filepath.Join(h.dir, runningFile), &note) != nil || !alive(note.PID) {
		return Credentials{}, ErrNoServer
	}
	var c Credentials
	if err := readJSON(note.Credentials, &c); err != nil {
		return Credentials{}, fmt.Errorf("reading the credentials of the dev server: %w", err)
	}
	return c, nil
}

// announce records this process as the running dev server, with the path of its credentials.
func (h Home) announce(credentials string) error {
	if err := h.make(); err != nil {
		return err
	}
	return writeJSON(filepath.Join(h.dir, runningFile), running{PID: os.Getpid(), Credentials: credentials})
}

// retract removes the record, unless another dev server has replaced it.
func (h Home) retract() {
	path := filepath.Join(h.dir, runningFile)
	var note running
	if err := readJSON(path, &note); err == nil && note.PID == os.Getpid() {
		// A leftover file is harmless, because readers check the process ID.
		_ = os.Remove(path)
	}
}

// alive reports whether a process exists. EPERM means that it exists and belongs to another user.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// savedKey returns the API key of an earlier dev server in the directory, or "" if there is none.
func (d *dataDir) savedKey() (string, error) {
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

// saveCredentials stores the credentials for scripts, the command line and the next start.
func (d *dataDir) saveCredentials(c Credentials) error { return writeJSON(d.in(credentialsFile), c) }

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

// writeJSON replaces a file atomically, so that a reader sees the old text or the new. Only the
// file's owner may read it.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	// CreateTemp gives the file mode 0600.
	side, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
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
