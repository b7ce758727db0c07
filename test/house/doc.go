// Package house checks the rules that the whole tree keeps: who may import whom, how large things may grow, what tests may do,
// and whether the documents say what is there. It reads source text, needs no database, and knows each exception by name and
// reason.
//
// Two documents are partly written by it. After a change of the import rules or of the decision records, run
//
//	go test ./test/house -update
package house
