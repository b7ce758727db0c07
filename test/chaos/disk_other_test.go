//go:build !linux

package chaos

import "errors"

// mountMemory cannot mount a disk in memory here.
func mountMemory(string, string) (unmount func() error, err error) { return nil, errors.ErrUnsupported }
