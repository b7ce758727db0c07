package bench

import "time"

// workload is what every contender does in a round: jobs, each at a due time of its own.
type workload struct {
	Jobs int           `json:"jobs"`
	Due  time.Time     `json:"due"`  // of the first one
	Span time.Duration `json:"span"` // over which due times are spread evenly, in nanoseconds; 0: all are due at once
}

// dueOf returns the due time of a job, in whole milliseconds as all due times are.
func (w workload) dueOf(n int) time.Time {
	return w.Due.Add(w.Span * time.Duration(n) / time.Duration(w.Jobs)).Truncate(time.Millisecond)
}

// end returns the first instant after every due time.
func (w workload) end() time.Time {
	return w.dueOf(w.Jobs - 1).Add(time.Millisecond)
}

// soon returns the first whole second that lies at least a lead ahead.
func soon(lead time.Duration) time.Time {
	return time.Now().Add(lead + time.Second).Truncate(time.Second)
}

// task is what the process of a contender is told.
type task struct {
	workload

	Mode     string `json:"mode,omitempty"` // of a program that can also prepare: fill or work
	Database string `json:"database"`
	Target   string `json:"target"` // the jobs' URL without their number
	Callers  int    `json:"callers"`
}
