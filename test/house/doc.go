// Package house checks the rules of the whole tree: imports between packages, budgets of size, the
// means of tests, and the truth of the documents. It reads source text and needs no database. Each
// exception is listed by name, with a reason.
//
// It generates the index of the decision records and the tables of state transitions. After a
// change of either, run
//
//	go test ./test/house -update
package house
