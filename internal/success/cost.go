package success

import (
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// smallCall is how many bytes and elements a call may look at for the price of the library.
const smallCall = 64

// prices charges calls by the size of what they look at. The library does so only where it knows the types of the arguments beforehand, which
// it never does for values out of JSON: there it takes joining two texts of a megabyte for one step. Of a pattern it sees the text that it is
// written in; what looking for it takes depends on its steps.
type prices struct{ steps map[string]uint64 } // of the patterns of the expression, by what they are written as

// CallCost implements the library's estimator. Nil means the library's own price.
func (p prices) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function == overloads.Matches && len(args) == 2 {
		return p.matches(args[0], args[1])
	}
	size := uint64(0)
	for _, arg := range args {
		size += sizeOf(arg)
	}
	if size <= smallCall {
		return nil
	}
	cost := 1 + size/10
	return &cost
}

// matches is what looking for a pattern costs: each of its steps may be taken for each byte. The evaluation is over where it is a pattern that
// was not compiled with the expression.
func (p prices) matches(in, wanted ref.Val) *uint64 {
	cost := uint64(costLimit + 1)
	if text, is := wanted.(types.String); is {
		if steps, known := p.steps[string(text)]; known {
			cost = (1 + sizeOf(in)/10) * (1 + steps/4)
		}
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
