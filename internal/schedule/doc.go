// Package schedule knows when a cron expression fires: it parses the expression, its time zone and its rules for clock changes,
// and answers [Cron.Next] for any instant. It reads no clock. What it says about a schedule is authoritative; robfig/cron, which
// reads the plain parts of the grammar, is seen by nobody else.
//
// # Expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with the second in front, or one of @hourly, @daily,
// @midnight, @weekly, @monthly, @yearly, @annually. A field is *, a value, a range a-b, a step */n, a-b/n or a/n (from a to
// the end of the field), or a list of these. In the two day fields ? means *. Months and weekdays may be named JAN, MON; upper and
// lower case are the same. Weekday 0 and 7 are Sunday, so 5-7 and FRI-SUN are a long weekend. There is no field for a year: [Check]
// refuses expressions of EventBridge and Quartz that have one. Further:
//
//	L, L-3     day of month: the last day, three days before it
//	15W, LW    day of month: the Monday-to-Friday day nearest to the 15th within its month, the last such day
//	MON#2, 1#2 day of week: the second Monday of the month
//	FRIL, 5L   day of week: the last Friday of the month
//	H, H/15    any field: a value, or a phase of the step, that is a stable hash of the endpoint (day of month: 1 to 28)
//	H(9-17)    the same within a range, H(9-17)/2 with a step
//
// When day of month and day of week are both restricted, a day that matches either one matches: the classic rule of cron. A field
// counts as restricted unless it holds * or ? (a step of them, such as */2, restricts).
//
// # Clock changes
//
// Where the clock jumps forward, local times are missing. With [GapRun] every missing time of one gap is made up by a single run
// at the first instant after the gap; with [GapSkip] it is not. Where the clock is set back, local times come twice. With
// [OverlapOnce] only the first pass runs, with [OverlapBoth] both do.
//
// An expression whose hour field holds *, ? or a step follows real time instead: it runs in both passes of an overlap, and a
// missing time is made up only if no regular time comes within the length of the gap, so that "every hour" is every real hour.
//
// # Bounds
//
// The longest wait that the calendar can cause is 40 years (a fifth Monday in February, across a century without a leap day), so
// a search looks 41 years ahead and then ends. It walks months, not minutes, and stretches of unchanged offset, not days.
package schedule
