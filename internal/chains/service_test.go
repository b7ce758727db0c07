package chains

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// storedRun is a store with one run. It returns the steps by name, as the statement does.
type storedRun struct {
	Records

	run   Record
	steps []StepRecord
}

func (s storedRun) Run(context.Context, [16]byte, RunID) (Record, []StepRecord, error) {
	return s.run, s.steps, nil
}

func TestStepsOfARunHaveTheOrderOfTheDefinition(t *testing.T) {
	t.Parallel()
	step := func(name string, index int) StepRecord { return StepRecord{Key: Key{name, index}} }
	stored := storedRun{steps: []StepRecord{
		step("charge", Whole),
		step("notify", Whole), step("notify", 0), step("notify", 1), step("notify", 10),
		step("reserve", Whole),
	}}
	stored.run.Definition.Steps = []StepSpec{{Name: "reserve"}, {Name: "notify"}, {Name: "charge"}}

	_, steps, err := NewService(nil, stored).Run(t.Context(), [16]byte{}, RunID{})

	require.NoError(t, err)
	var order []Key
	for _, s := range steps {
		order = append(order, s.Key)
	}
	require.Equal(t, []Key{{"reserve", Whole}, {"notify", Whole}, {"notify", 0}, {"notify", 1}, {"notify", 10}, {"charge", Whole}}, order)
}
