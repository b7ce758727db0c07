package spending_test

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/spending"
	endpointstore "rubato/internal/store/endpoints"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	budgetstore "rubato/internal/store/spending"
	"rubato/internal/store/storetest"
	"rubato/internal/tempo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tenant = keystore.DefaultTenant

func actor() auditlog.Actor { return auditlog.Actor{TenantID: tenant, Name: "ada"} }

func service(b *storetest.Bundle) *spending.Service {
	return spending.NewService(budgetstore.New(b.DB))
}

func TestBudgetIsStoredChangedAndDeleted(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	s := service(b)
	first, created, err := s.Put(t.Context(), actor(), "label:team=shop", "600/h")
	require.NoError(t, err)
	require.True(t, created)
	require.InDelta(t, tempo.Budget{Runs: 600, Per: time.Hour}.FirstPrice(), first.Price, 0)
	second, created, err := s.Put(t.Context(), actor(), "label:team=shop", "60/m")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.CreatedAt, second.CreatedAt)
	require.Equal(t, first.Price, second.Price, "workers move the price") //nolint:testifylint // It is the same number.
	got, err := s.Get(t.Context(), actor(), "label:team=shop")
	require.NoError(t, err)
	require.Equal(t, second, got)
	_, err = s.Get(t.Context(), b.OtherTenant(t), "label:team=shop")
	require.Equal(t, errs.NotFound, errs.CodeOf(err))
	require.NoError(t, s.Delete(t.Context(), actor(), "label:team=shop"))
	require.Equal(t, errs.NotFound, errs.CodeOf(s.Delete(t.Context(), actor(), "label:team=shop")))
	var actions []auditlog.Action
	for _, entry := range storetest.Logged(t, b, func(f *auditlog.Filter) { f.Kind = auditlog.Budget }) {
		actions = append(actions, entry.Action)
	}
	require.Equal(t, []auditlog.Action{auditlog.Delete, auditlog.Edit, auditlog.Create}, actions)
}

func TestTenantHasAtMostAThousandBudgets(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	b.Exec(t, `INSERT INTO budgets (tenant_id, name, budget, price, stepped_at, created_at, updated_at)
		SELECT $1, 'label:n=' || n, '1/h', 1, now(), now(), now() FROM generate_series(1, $2) n`, tenant, spending.MaxPerTenant)
	_, _, err := service(b).Put(t.Context(), actor(), "tenant", "1/h")
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	_, _, err = service(b).Put(t.Context(), actor(), "label:n=1", "2/h")
	require.NoError(t, err, "an existing one can be changed")
	list, err := service(b).List(t.Context(), actor(), "label:n=998", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

// worker is a process with a cache of its own.
type worker struct {
	states *endpointstore.States
	prices *budgetstore.Prices
}

func newWorker(b *storetest.Bundle) worker {
	states := endpointstore.NewStates(b.DB, 1)
	return worker{states: states, prices: budgetstore.NewPrices(states, slog.New(slog.DiscardHandler))}
}

// TestWorkersStepAPriceTogether has two workers with runs that exceed the budget only together.
func TestWorkersStepAPriceTogether(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	now := b.At(storetest.Noon())
	stored, _, err := service(b).Put(t.Context(), actor(), "tenant", "3600/h") // 10 runs a step
	require.NoError(t, err)
	one, two := newWorker(b), newWorker(b)
	key := spending.Key{TenantID: tenant, Name: "tenant"}
	price := stored.Price
	for range 5 {
		now = b.At(now.Add(tempo.PriceStep))
		one.states.Spent.Add(key, 8)
		two.states.Spent.Add(key, 8)
		require.NoError(t, one.prices.Refresh(t.Context()))
		require.NoError(t, two.prices.Refresh(t.Context()))
		price = two.states.Budgets.Load().For(tenant, "a.example", nil).Price
	}
	// Of 80 runs, 72 were counted before the last step.
	want := tempo.Budget{Runs: 3600, Per: time.Hour}.Next(stored.Price, 72, 5*tempo.PriceStep)
	require.InEpsilon(t, want, price, 1e-9)
	require.EqualValues(t, 8, storetest.Query[int64](t, b, "SELECT used FROM budgets"), "the rest counts for the next step")
}

// TestFailedRefreshKeepsTheCounts takes the table away for one refresh.
func TestFailedRefreshKeepsTheCounts(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	_, _, err := service(b).Put(t.Context(), actor(), "tenant", "3600/h")
	require.NoError(t, err)
	w := newWorker(b)
	w.states.Spent.Add(spending.Key{TenantID: tenant, Name: "tenant"}, 4)
	b.Exec(t, "ALTER TABLE budgets RENAME TO hidden")
	require.Error(t, w.prices.Refresh(t.Context()))
	b.Exec(t, "ALTER TABLE hidden RENAME TO budgets")
	require.NoError(t, w.prices.Refresh(t.Context()))
	require.EqualValues(t, 4, storetest.Query[int64](t, b, "SELECT used FROM budgets"))
}

// TestFinishSpendsTheSharedBudget follows an endpoint from its budget to the stored count.
func TestFinishSpendsTheSharedBudget(t *testing.T) {
	t.Parallel()
	b := storetest.Setup(t)
	for _, name := range []string{"label:team=shop", "tenant"} {
		_, _, err := service(b).Put(t.Context(), actor(), name, "3600/h")
		require.NoError(t, err)
	}
	w := newWorker(b)
	require.NoError(t, w.prices.Refresh(t.Context()))
	b.Executions = items.NewExecutions(w.states)
	e := b.Register(t, func(s *endpoints.Spec) {
		s.Labels = map[string]string{"team": "shop"}
		s.Planner = endpoints.PlannerAct
	})
	by := storetest.Worker{1}
	for n := range 3 {
		b.Exec(t, "UPDATE schedules SET due_at = now() - interval '1 s', planned_at = now() - interval '1 s'")
		claim, started := b.StartOne(t, by)
		run := storetest.Succeed(by, claim, started)
		run.Outcome.BodyDigest = uint64(n + 1)
		b.Finish(t, by, 0, run)
	}
	require.NoError(t, w.prices.Refresh(t.Context()))
	require.EqualValues(t, 3, storetest.Query[int64](t, b, "SELECT used FROM budgets WHERE name = 'label:team=shop'"))
	require.Zero(t, storetest.Query[int64](t, b, "SELECT used FROM budgets WHERE name = 'tenant'"), "the most specific one counts")
	got := b.Get(t, e.ID)
	require.NotNil(t, got.State.Tempo)
	require.Equal(t, governor.SourceChangeRate, got.State.Due.Source)
	input := storetest.Query[string](t, b, "SELECT octet_length(tempo)::text FROM schedules")
	length, err := strconv.Atoi(input)
	require.NoError(t, err)
	require.LessOrEqual(t, length, 1024)
}
