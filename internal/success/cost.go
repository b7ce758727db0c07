package success

import (
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// smallCall is the number of bytes and elements that a call may process for the library's price.
const smallCall = 64

// prices charges calls by the size of their arguments. The library does so only for statically
// known types, which values of JSON never have: it charges one step for the concatenation of two
// megabytes. It charges a pattern by the length of its source, but the cost of matching depends on
// its steps. steps holds them by the source of the pattern.
type prices struct{ steps map[string]uint64 }

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

// matches returns the cost of matching a pattern: its steps times the bytes of the text. A pattern
// that was not compiled with the expression costs the whole limit, which ends the evaluation.
func (p prices) matches(in, wanted ref.Val) *uint64 {
	cost := uint64(costLimit + 1)
	if text, is := wanted.(types.String); is {
		if steps, known := p.steps[string(text)]; known {
			cost = (1 + sizeOf(in)/10) * (1 + steps/4)
		}
	}
	return &cost
}

// sizeOf returns the size of a value: the bytes of a text, and ten per element of a list or map.
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
