// Package schedule computes the occurrences of cron expressions: it parses the expression, its time
// zone and its policies for clock changes, and answers [Cron.Next] for any instant. It reads no
// clock. It is the only package that uses robfig/cron, which parses the plain parts of the grammar.
//
// # Expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with the second in front, or
// one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. A field is *, a value,
// a range a-b, a step */n, a-b/n or a/n (from a to the end of the field), or a list of these. In
// the two day fields ? means *. Months and weekdays have names such as JAN and MON, in upper or
// lower case. Weekdays 0 and 7 are Sunday, so 5-7 and FRI-SUN are a long weekend. There is no year
// field: [Check] refuses expressions of EventBridge and Quartz with a year. Further:
//
//	L, L-3     day of month: the last day, three days before it
//	15W, LW    day of month: the Monday-to-Friday day nearest to the 15th within its month, the last such day
//	MON#2, 1#2 day of week: the second Monday of the month
//	FRIL, 5L   day of week: the last Friday of the month
//	H, H/15    any field: a value, or a phase of the step, that is a stable hash of the endpoint (day of month: 1 to 28)
//	H(9-17)    the same within a range, H(9-17)/2 with a step
//
// If day of month and day of week are both restricted, a day has to match only one of them, as in
// classic cron. A field is restricted unless it holds * or ?. A step such as */2 restricts.
//
// # Clock changes
//
// If the clock jumps forward, local times are missing (gap). With [GapRun] a single run at the
// first instant after the gap replaces all of them; with [GapSkip] they are skipped. If the clock
// is set back, local times repeat (overlap). With [OverlapOnce] only the first pass runs, with
// [OverlapBoth] both do.
//
// An expression with *, ? or a step in its hour field follows real time instead, so that "every
// hour" is every real hour. It runs in both passes of an overlap. A missing time is replaced only
// if no regular time comes within the length of the gap.
//
// # Bounds
//
// The calendar can require a wait of 40 years (a fifth Monday in February, across a century without
// a leap day), so a search covers 41 years. It advances by months and by periods of unchanged zone
// offset, so its cost does not depend on minutes or days.
package schedule
