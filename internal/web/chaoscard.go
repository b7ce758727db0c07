package web

import (
	"encoding/json"
	"fmt"
	"time"

	"rubato/docs"
)

// scenario is a row of the guarantee card: the fault that test/chaos injected, and the audit of the
// database after it.
type scenario struct {
	Name       string `json:"name"`
	Fault      string `json:"fault"`
	Fired      string `json:"fired"`      // how the fault showed
	RecoveryMs int64  `json:"recoveryMs"` // from the end of the fault to the last start that was over a second late
	Report     struct {
		AuditedAt time.Time `json:"auditedAt"`
		Counts    struct {
			Starts     int64 `json:"starts"`
			Duplicates int64 `json:"duplicates"`
			Overlaps   int64 `json:"overlaps"`
			Excused    int64 `json:"excused"` // of the overlaps, those with a frozen worker
		} `json:"counts"`
		Lateness struct {
			P99 int64 `json:"p99Ms"`
			Max int64 `json:"maxMs"`
		} `json:"lateness"`
		Checks []struct {
			Breaches int64 `json:"breaches"`
		} `json:"checks"`
	} `json:"report"`
}

// breaches returns how many promises were found broken.
func (s scenario) breaches() int64 {
	var n int64
	for _, c := range s.Report.Checks {
		n += c.Breaches
	}
	return n
}

// chaosCard is the guarantee card embedded at build time, ordered by scenario name. It may be
// empty.
type chaosCard []scenario

// newChaosCard reads the card that the documentation carries.
func newChaosCard() chaosCard {
	var c chaosCard
	if err := json.Unmarshal(docs.GuaranteeCard, &c); err != nil {
		panic(fmt.Sprintf("reading docs/guarantee-card.json: %v", err)) // It is in the binary, and a test reads it.
	}
	return c
}

// at returns when the newest of the scenarios was audited.
func (c chaosCard) at() (newest time.Time) {
	for _, s := range c {
		newest = later(newest, s.Report.AuditedAt)
	}
	return newest
}

// sum adds up a figure of all scenarios.
func (c chaosCard) sum(of func(scenario) int64) (n int64) {
	for _, s := range c {
		n += of(s)
	}
	return n
}

func starts(s scenario) int64     { return s.Report.Counts.Starts }
func duplicates(s scenario) int64 { return s.Report.Counts.Duplicates }
func broken(s scenario) int64     { return s.breaches() }
