package endpoints_test

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// clampStreams is the number of random streams of answers and headers. RUBATO_TEMPO=full has a
// million, as make tempo does.
func clampStreams() int {
	if os.Getenv("RUBATO_TEMPO") == "full" {
		return 1_000_000
	}
	return 4_000
}

// TestNoStreamOfAnswersLeavesTheClamps lets targets answer at random: changes, failures, 429,
// Rubato-Next, staleness, and answers that ask for close looks. No two runs start closer than the
// minimum, and none comes later than the maximum after the one before, except behind a Retry-After.
func TestNoStreamOfAnswersLeavesTheClamps(t *testing.T) {
	t.Parallel()
	const answers = 12
	for seed := range clampStreams() {
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		e := clampedEndpoint(random)
		_, err := e.Replan(start)
		require.NoError(t, err)
		last := time.Time{}
		for range answers {
			at := e.State.Due.At
			asked := e.State.RetryAfter
			if !last.IsZero() {
				require.GreaterOrEqual(t, at.Sub(last), e.Spec.MinInterval, "seed %d", seed)
				if !asked.After(last.Add(e.Spec.MaxInterval)) {
					require.LessOrEqual(t, at.Sub(last), e.Spec.MaxInterval, "seed %d", seed)
				}
			}
			_, err := e.AfterRun(at, randomAnswer(random, e, at))
			require.NoError(t, err)
			last = at
		}
	}
}

// clampedEndpoint returns an endpoint with random clamps, budget and rules for headers.
func clampedEndpoint(random *rand.Rand) *endpoints.Endpoint {
	spec := valid()
	spec.Planner = endpoints.PlannerAct
	spec.MinInterval = time.Duration(1+random.IntN(20)) * time.Second
	spec.BaselineInterval = spec.MinInterval + time.Duration(random.IntN(60))*time.Second
	spec.MaxInterval = spec.BaselineInterval + time.Duration(random.IntN(120))*time.Second
	spec.FollowNext, spec.FollowMaxAge = random.IntN(2) == 0, random.IntN(2) == 0
	if random.IntN(3) == 0 {
		spec.Budget = "600/h"
	}
	return &endpoints.Endpoint{
		ID:        endpoints.ID{byte(random.Uint32())},
		Version:   1,
		CreatedAt: start,
		Spec:      spec,
		Terse:     true,
	}
}

// randomAnswer returns the end of the planned run, which started at an instant and took no time.
func randomAnswer(random *rand.Rand, e *endpoints.Endpoint, at time.Time) endpoints.Finished {
	due := e.State.Due
	f := endpoints.Finished{
		Slot:         due.Slot,
		Attempt:      due.Attempt,
		InfraAttempt: due.InfraAttempt,
		Source:       due.Source,
		StartedAt:    at,
		FinishedAt:   at,
		Status:       "succeeded",
		Verdict:      endpoints.Success,
		Digest:       1 + random.Uint64N(3),
		Unchanged:    random.IntN(4) == 0,
		LookAgain:    random.IntN(4) == 0,
	}
	wish := at.Add(time.Duration(random.IntN(300)) * time.Second)
	switch random.IntN(5) {
	case 0:
		failed(&f)
		f.Digest, f.Unchanged = 0, false
		if random.IntN(2) == 0 {
			f.RetryAfter = wish
		}
	case 1:
		f.TargetNext = wish
	case 2:
		f.FreshUntil = wish
	}
	return f
}
