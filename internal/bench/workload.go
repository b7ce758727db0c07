package bench

import "time"

// workload is what every contender does in a round: jobs, each at a due time of its own.
type workload struct {
	Jobs    int           `json:"jobs"`
	Due     time.Time     `json:"due"`     // of the first one
	Spacing time.Duration `json:"spacing"` // from one due time to the next, in nanoseconds; 0: all are due at once
}

// dueOf returns the due time of a job, in whole milliseconds as all due times are.
func (w workload) dueOf(n int) time.Time {
	return w.Due.Add(time.Duration(n) * w.Spacing).Truncate(time.Millisecond)
}

// end returns the first instant after every due time.
func (w workload) end() time.Time {
	if w.Spacing == 0 {
		return w.Due.Add(time.Millisecond)
	}
	return w.Due.Add(time.Duration(w.Jobs) * w.Spacing).Truncate(time.Millisecond)
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
