// Package planner analyses how endpoints behave and proposes another interval for them. A proposal
// is limited to the endpoint's two hints and a short pause. Each has an end, and the governor
// clamps its effect.
//
// An [Advisor] judges one [Snapshot] at a time. It reads and acts only through a [Toolset], which
// is bound to one endpoint of one tenant in one version. The [Guardrails] check every proposal.
// Therefore a hostile response cannot widen the effect of an analysis, even if it controls the
// advisor.
//
// A [Session] is one analysis from claim to record. It is written in one transaction at its end,
// fenced by the token of its claim and by the version of the endpoint that it read.
package planner
