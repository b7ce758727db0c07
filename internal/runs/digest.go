package runs

// FNV-1a with 64 bits, as its authors published it.
const (
	digestOffset = 14695981039346656037
	digestPrime  = 1099511628211
)

// Digest returns a fingerprint of a body for comparing responses: the 64-bit FNV-1a hash, and 0 for
// an empty body. The hash never changes, because it is stored. It does not resist deliberate
// collisions.
func Digest(body []byte) uint64 {
	if len(body) == 0 {
		return 0
	}
	hash := uint64(digestOffset)
	for _, b := range body {
		hash = (hash ^ uint64(b)) * digestPrime
	}
	return hash
}
