package planner

import (
	"context"
	"time"

	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// SuggestionsStatement returns the statement of a list of suggestions.
func SuggestionsStatement(f planner.SuggestionFilter, now time.Time) pg.Statement {
	return func(db dbsqlc.DBTX) error {
		_, err := dbsqlc.New().PlannerSuggestionList(context.Background(), db, suggestionPage(f, now))
		return err
	}
}
