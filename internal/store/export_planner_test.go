package store

import (
	"context"
	"time"

	"rubato/internal/planner"
	"rubato/internal/store/dbsqlc"
)

// PlannerStatement returns what a statement of the planner asks the database.
func PlannerStatement(of func(q *dbsqlc.Queries, db dbsqlc.DBTX) error) Asked {
	return asked(func(db dbsqlc.DBTX) error { return of(dbsqlc.New(), db) })
}

// SuggestionsStatement returns what a list of suggestions asks the database.
func SuggestionsStatement(f planner.SuggestionFilter, now time.Time) Asked {
	return PlannerStatement(func(q *dbsqlc.Queries, db dbsqlc.DBTX) error {
		_, err := q.PlannerSuggestionList(context.Background(), db, suggestionPage(f, now))
		return err
	})
}
