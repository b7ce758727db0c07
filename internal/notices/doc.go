// Package notices knows what somebody is told when something breaks, and when: rules, the episodes that they open and close, notices of
// them, and maintenance windows. It keeps nothing, sends nothing and reads no clock.
//
// # One notice per episode
//
// A rule is about an event of endpoints: failures in a row, a late start, a lost run, a pause that no person asked for, a suggestion of the
// planner that waits. When that is so of an endpoint, an episode opens, of which one is open at most for a rule and an endpoint. The
// notice of it is written in the same transaction, into an outbox that workers deliver. While the episode is open nothing more is said
// but reminders, where the rule wants them. When it closes, that is told once.
//
// The database is authoritative: which episode is open is a row, and that there is one is an index. What a program remembers of rules, a
// [RuleCache], decides only whether the database is asked at all, so that a run that no rule is about costs nothing.
package notices
