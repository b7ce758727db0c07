package jsonpath

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// Number returns a JSON number as an int64 if it is whole, without an exponent and fits. Otherwise
// it returns the nearest float64, which may be infinite.
func Number(n json.Number) any {
	if whole, err := n.Int64(); err == nil {
		return whole
	}
	f, _ := strconv.ParseFloat(n.String(), 64) // a range error returns infinity
	return f
}

// Compare compares two JSON numbers exactly: 3, 3.0 and 30e-1 are equal, and 3.00000000000000000001
// is larger. Its time depends on the length of the texts only, not on the exponents.
func Compare(a, b json.Number) int {
	x, y := decimalOf(a), decimalOf(b)
	if x.sign != y.sign || x.sign == 0 {
		return cmp.Compare(x.sign, y.sign)
	}
	return x.sign * cmp.Or(cmp.Compare(x.exponent, y.exponent), strings.Compare(x.digits, y.digits))
}

// Canonical returns the one notation that all equal numbers share: 3, 3.0 and 30e-1 are "3e1",
// which is 0.3 times ten.
func Canonical(n json.Number) string {
	d := decimalOf(n)
	switch d.sign {
	case 0:
		return "0"
	case -1:
		return "-" + d.digits + "e" + strconv.Itoa(d.exponent)
	default:
		return d.digits + "e" + strconv.Itoa(d.exponent)
	}
}

// decimal is the number 0.digits times ten to the power of the exponent.
type decimal struct {
	sign     int    // -1, 0 or 1
	digits   string // first and last digit are not 0
	exponent int
}

// farExponent replaces every larger exponent. No text is long enough for its digits to outweigh it.
const farExponent = 1 << 40

func decimalOf(n json.Number) decimal {
	text, minus := strings.CutPrefix(string(n), "-")
	exponent := 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		read, err := strconv.Atoi(text[at+1:])
		if err != nil && strings.HasPrefix(text[at+1:], "-") { // the syntax is valid, so it is too long
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
