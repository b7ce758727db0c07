package errs

// Distance returns the edit distance of two names, for messages that suggest a known name: the
// number of single letters that must be added, dropped or changed to make b of a (Levenshtein,
// "Binary codes capable of correcting deletions, insertions, and reversals", 1966). Letters are
// bytes: the names that it is asked of are ASCII. It fills the classic table one row at a time:
// row[j] is the distance between what was read of a and the first j letters of b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
