package success

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// smallCall is how many bytes and elements a call may look at for the price of the library.
const smallCall = 64

// prices charges calls by the size of what they look at. The library does so only where it knows the types of the arguments beforehand, which it
// never does for values out of JSON: there it takes joining two texts of a megabyte for one step.
type prices struct{}

// CallCost implements the library's estimator. Nil means the library's own price.
func (prices) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	size := uint64(0)
	for _, arg := range args {
		size += sizeOf(arg)
	}
	if size <= smallCall {
		return nil
	}
	cost := 1 + size/10
	if function == "matches" {
		cost *= 1 + sizeOf(args[len(args)-1])/4
	}
	return &cost
}

// sizeOf returns the size of a value: bytes of a text, and ten for each element of a list or map.
func sizeOf(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok && n > 0 {
			return 10 * uint64(n)
		}
	}
	return 1
}
