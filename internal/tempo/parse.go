package tempo

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// budgetUnits are the units of a budget.
var budgetUnits = map[string]time.Duration{
	"s": time.Second,
	"m": time.Minute,
	"h": time.Hour,
	"d": day,
}

// maxBudget bounds the runs of a budget per period. It is beyond what a worker can send.
const maxBudget = 1_000_000_000

// BudgetForm is the right form of a budget, for messages.
const BudgetForm = "a number of runs per s, m, h or d, such as 600/h"

// ParseBudget parses a budget such as 600/h: a number of runs per s, m, h or d.
func ParseBudget(text string) (Budget, error) {
	number, unit, _ := strings.Cut(text, "/")
	runs, err := strconv.ParseInt(number, 10, 64)
	per := budgetUnits[unit]
	if err != nil || runs < 1 || runs > maxBudget || per == 0 || number[0] == '+' || number[0] == '0' {
		return Budget{}, fmt.Errorf("budget %q: must be %s", text, BudgetForm)
	}
	return Budget{Runs: runs, Per: per}, nil
}
