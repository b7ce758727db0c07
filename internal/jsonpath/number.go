package jsonpath

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// Number returns a JSON number as an int64 where it is whole, without an exponent and fits, else as the nearest float64, which may be
// infinite.
func Number(n json.Number) any {
	if whole, err := n.Int64(); err == nil {
		return whole
	}
	f, _ := strconv.ParseFloat(n.String(), 64) // An error is about the range, for which it answers with infinity.
	return f
}

// Compare orders two JSON numbers by what they say, however long they are and however they are written: 3, 3.0 and 30e-1 are the same, and
// none of them is 3.00000000000000000001. It takes time in their lengths alone, whatever their exponents are.
func Compare(a, b json.Number) int {
	x, y := decimalOf(a), decimalOf(b)
	if x.sign != y.sign || x.sign == 0 {
		return cmp.Compare(x.sign, y.sign)
	}
	return x.sign * cmp.Or(cmp.Compare(x.exponent, y.exponent), strings.Compare(x.digits, y.digits))
}

// decimal is the number 0.digits times ten to the power of the exponent.
type decimal struct {
	sign     int    // -1, 0 or 1
	digits   string // the first and the last of them are none of 0
	exponent int
}

// farExponent stands for every exponent that is further out: no answer is long enough to bring its number back.
const farExponent = 1 << 40

func decimalOf(n json.Number) decimal {
	text, minus := strings.CutPrefix(string(n), "-")
	exponent := 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		read, err := strconv.Atoi(text[at+1:])
		if err != nil && strings.HasPrefix(text[at+1:], "-") { // Its form is that of a number, so it is long.
			read = -farExponent
		} else if err != nil {
			read = farExponent
		}
		exponent, text = min(max(read, -farExponent), farExponent), text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent += len(whole) - (len(whole) + len(fraction) - len(digits))
	digits = strings.TrimRight(digits, "0")
	switch {
	case digits == "":
		return decimal{}
	case minus:
		return decimal{-1, digits, exponent}
	default:
		return decimal{1, digits, exponent}
	}
}
