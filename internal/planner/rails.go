package planner

import "time"

// Rails are the bounds of what a planner may do, whoever advises it. They hold in code, not in a prompt. The lives of hints and pauses
// are bounded for everybody: see endpoints.MaxHintLife and endpoints.MaxPlannerPause.
type Rails struct {
	MaxStep        float64       // how many times longer or shorter a proposed interval may be than what is in force; more is cut to it
	MinStep        float64       // how many times longer or shorter it has to be to be worth a change
	Dwell          time.Duration // least time between two changes of an endpoint; twice this to turn back
	ChangesPerHour int           // of an endpoint
	MinAgain       time.Duration // least and most time to the next analysis that a verdict may ask for
	MaxAgain       time.Duration
	PerHour        int // analyses of an endpoint
}

// DefaultRails are those of a planner that nobody configured.
func DefaultRails() Rails {
	return Rails{
		MaxStep: 4, MinStep: 1.2, Dwell: time.Minute, ChangesPerHour: 12, MinAgain: 30 * time.Second, MaxAgain: 24 * time.Hour, PerHour: 12,
	}
}
