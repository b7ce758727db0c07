//go:build !failpoints

package failpoint

// Hit does nothing in a build without failpoints.
func Hit(Point) {}
