package chaos

import "syscall"

// mountMemory mounts a disk in memory.
func mountMemory(dir, options string) (unmount func() error, err error) {
	if err := syscall.Mount("rubato-chaos", dir, "tmpfs", 0, options); err != nil {
		return nil, err
	}
	return func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }, nil
}
