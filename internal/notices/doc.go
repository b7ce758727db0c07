// Package notices decides when a failure is reported, and to which receiver: rules, the episodes
// that they open and close, notices, and maintenance windows. It stores nothing, sends nothing and
// reads no clock.
//
// # One notice per episode
//
// A rule watches an event of endpoints: consecutive failures, a late start, a lost run, an
// automatic pause, a suggestion of the planner. When the event occurs at an endpoint, an episode
// opens. A rule has at most one open episode per endpoint. The transaction that opens it writes a
// notice into a transactional outbox, and workers deliver it. An open episode causes no more
// notices, except for reminders if the rule wants them. Closing it causes one more notice.
//
// The database is authoritative: an open episode is a row, and a unique index prevents a second
// one. The [RuleCache] in memory only decides whether the database is asked, so that a run without
// a matching rule costs nothing.
package notices
