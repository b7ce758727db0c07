package runs

// FNV-1a with 64 bits, as its authors published it.
const (
	digestOffset = 14695981039346656037
	digestPrime  = 1099511628211
)

// contentBits is the number of low bits of an answer's digest that depend on its content. The
// others identify the form in which the answer was compared.
const contentBits = 48

// Tagged returns the digest of an answer from the hash of its compared part and the tag of the form
// in which it is compared. It is never 0, because 0 means that there is no digest.
func Tagged(hash uint64, tag uint16) uint64 {
	return max(uint64(tag)<<contentBits|(hash^hash>>contentBits)&(1<<contentBits-1), 1)
}

// Comparable reports whether two digests of answers have the same form. Digests of two forms differ
// without a change of the content, for example before and after an edit of the ignored members.
func Comparable(a, b uint64) bool { return a>>contentBits == b>>contentBits }

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
