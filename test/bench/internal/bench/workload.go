package bench

import "time"

// workload is the work of every contender in a round: jobs with a due time each.
type workload struct {
	Jobs int           `json:"jobs"`
	Due  time.Time     `json:"due"`  // of the first job
	Span time.Duration `json:"span"` // nanoseconds that due times are spread over evenly; 0: all at once
}

// dueOf returns the due time of a job, in whole milliseconds like all due times.
func (w workload) dueOf(n int) time.Time {
	return w.Due.Add(w.Span * time.Duration(n) / time.Duration(w.Jobs)).Truncate(time.Millisecond)
}

// end returns the first instant after all due times.
func (w workload) end() time.Time {
	return w.dueOf(w.Jobs - 1).Add(time.Millisecond)
}

// soon returns the first whole second after a lead.
func soon(lead time.Duration) time.Time {
	return time.Now().Add(lead + time.Second).Truncate(time.Second)
}

// task is the task of a contender's process.
type task struct {
	workload

	Mode     string `json:"mode,omitempty"` // fill or work, for a program that can also prepare
	Database string `json:"database"`
	Target   string `json:"target"` // the jobs' URL without their number
	Callers  int    `json:"callers"`
}
