// Package change says what counts as a change of an answer. A [Form] selects the members that are
// compared: those of a change key, or all without the ignored ones. Their canonical form does not
// depend on the order of members or on the notation of numbers. A [Watch] finds members that differ
// in every answer, such as timestamps and request IDs, by looking three times in close succession.
// The package is pure and bounded, because answers come from strangers.
package change
