// Package planner looks at how endpoints behave and proposes another tempo for them. It proposes only: what it may ever change is an
// endpoint's two hints and a short pause, each with an end, and the governor clamps what comes of them.
//
// An [Advisor] judges one [Case] at a time. Whatever it is, it sees and acts through a [Desk] alone, which the program has bound to one
// endpoint of one tenant in one version, and whose every proposal the [Rails] judge: so what an advisor makes of a hostile answer, or
// whether it is one, decides nothing about what can happen.
//
// A [Session] is one analysis from claim to record. Nothing is written before its end, and then everything at once, under the token of
// its claim and the version that it saw.
package planner
