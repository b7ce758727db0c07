package items_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/store/storetest"
)

// vocabulary are the tags of these tests. The last one is a capability.
var vocabulary = []string{"net=internal", "region=eu", "region=us", "capability=ipv6"}

// announce writes the row of a worker with tags, and returns the tag sets that it serves.
func (b *bundle) announce(t *testing.T, worker storetest.Worker, p dispatch.Placement) claims.TagSets {
	t.Helper()
	_, err := b.Executions.Beat(t.Context(), dispatch.Presence{
		ID:        worker,
		Name:      "host",
		Version:   "v",
		State:     dispatch.Active,
		Slots:     1,
		Placement: p,
	})
	require.NoError(t, err)
	fleet, err := b.Executions.Fleet(t.Context(), worker)
	require.NoError(t, err)
	fleet.TagSets.Exclusive = p.Exclusive
	return fleet.TagSets
}

// claimTagged claims all endpoints of the tag sets that are due.
func (b *bundle) claimTagged(t *testing.T, by storetest.Worker, sets claims.TagSets) []claims.Claim {
	t.Helper()
	list, _, err := b.Claims.ClaimDue(t.Context(), claims.Request{
		Worker:  by,
		Limit:   1000,
		LockTTL: time.Minute,
		TagSets: sets,
	})
	require.NoError(t, err)
	return list
}

// some returns a random part of a list.
func some(r *rand.Rand, list []string, most int) (part []string) {
	for _, i := range r.Perm(len(list))[:r.IntN(most+1)] {
		part = append(part, list[i])
	}
	return part
}

// randomPlacement returns the tags of a random worker.
func randomPlacement(r *rand.Rand) dispatch.Placement {
	return dispatch.Placement{
		Tags:         some(r, vocabulary[:3], 3),
		Capabilities: some(r, vocabulary[3:], 1),
		Exclusive:    r.IntN(3) == 0,
	}
}

// serves is the rule of tags, read independently of the SQL function worker_serves.
func serves(p dispatch.Placement, required []string) bool {
	own := false
	for _, tag := range required {
		if !slices.Contains(p.Tags, tag) && !slices.Contains(p.Capabilities, tag) {
			return false
		}
		own = own || slices.Contains(p.Tags, tag)
	}
	return own || !p.Exclusive
}

// TestEndpointsRunOnlyWhereTheirTagsAllow places 300 endpoints on three random workers in each
// round, over 100,000 placements in all. Claims and the sweep for endpoints without a worker must
// agree with the independent rule.
func TestEndpointsRunOnlyWhereTheirTagsAllow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := rand.New(rand.NewPCG(1, 2))
	now := b.At(storetest.Noon())
	required := map[[16]byte][]string{}
	var list []endpoints.Upsert
	for i := range 300 {
		spec := endpoints.Defaults()
		spec.Name, spec.Key, spec.URL, spec.BaselineInterval = "probe", fmt.Sprint("e", i), "http://target.example/", time.Minute
		spec.RequiredTags = some(r, vocabulary, 3)
		list = append(list, endpoints.Upsert{Key: spec.Key, Want: func(*endpoints.Endpoint) (endpoints.Spec, error) { return spec, nil }})
	}
	for _, o := range b.Upsert(t, endpoints.Mode{}, list...) {
		require.NoError(t, o.Err)
		required[o.Endpoint.ID] = o.Endpoint.Spec.RequiredTags
	}
	rounds := 340
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		b.Exec(t, "DELETE FROM workers")
		b.Exec(t, "UPDATE schedules SET claimed_by = NULL, claimed_at = NULL, claim_token = claim_token + 1, due_at = $1, planned_at = $1", now)
		workers, claimed := map[storetest.Worker]dispatch.Placement{}, map[[16]byte]bool{}
		for i := range 3 {
			workers[storetest.Worker{byte(i + 1)}] = randomPlacement(r)
		}
		for worker, p := range workers {
			for _, c := range b.claimTagged(t, worker, b.announce(t, worker, p)) {
				require.Truef(t, serves(p, required[c.EndpointID]), "round %d: %+v claimed an endpoint that requires %v", round, p, required[c.EndpointID])
				claimed[c.EndpointID] = true
			}
		}
		_, err := b.Sweeps.Unserved(t.Context(), 0)
		require.NoError(t, err)
		marked := map[[16]byte]bool{}
		for _, id := range storetest.Query[[][16]byte](t, b.Bundle,
			"SELECT coalesce(array_agg(s.endpoint_id), '{}') FROM schedules s JOIN tag_sets t ON t.id = s.tag_set_id WHERE t.unserved_since IS NOT NULL") {
			marked[id] = true
		}
		for id, tags := range required {
			allowed := false
			for _, p := range workers {
				allowed = allowed || serves(p, tags)
			}
			require.Equalf(t, allowed, claimed[id], "round %d: %v", round, tags)
			require.Equalf(t, allowed, !marked[id], "round %d: the sweep, %v", round, tags)
		}
	}
}

// TestTheRuleOfTagsIsOne compares the SQL function, which claims, the sweeper and routability use,
// with the independent reading.
func TestTheRuleOfTagsIsOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		p := randomPlacement(r)
		b.announce(t, storetest.Worker{1}, p)
		for range 100 {
			tags := some(r, vocabulary, 4)
			got := storetest.Query[bool](t, b.Bundle, "SELECT worker_serves(w, $1::text[]) FROM workers w", append([]string{}, tags...))
			require.Equal(t, serves(p, tags), got, "%+v %v", p, tags)
		}
	}
}

func TestWorkersWithoutPreferredTagsWaitForThoseThatHaveThem(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.PreferredTags = []string{"region=eu"} })
	b.Exec(t, "UPDATE schedules SET due_at = $1, planned_at = $1", now)
	plain, eu := storetest.Worker{1}, storetest.Worker{2}
	served := storetest.Query[int32](t, b.Bundle, "SELECT tag_set_id FROM schedules WHERE endpoint_id = $1", e.ID)

	require.Equal(t, []claims.TagSet{{ID: served}}, b.announce(t, plain, dispatch.Placement{}).List, "no worker is preferred")
	require.Equal(t, []claims.TagSet{{ID: served}}, b.announce(t, eu, dispatch.Placement{Tags: []string{"region=eu"}}).List)
	yields := b.announce(t, plain, dispatch.Placement{})
	require.Equal(t, []claims.TagSet{{ID: served, Yields: true}}, yields.List)
	require.False(t, yields.Keeps(served))

	b.At(now.Add(5*time.Second - time.Millisecond))
	require.Empty(t, b.claimTagged(t, plain, yields))
	b.At(now.Add(5 * time.Second))
	require.Len(t, b.claimTagged(t, plain, yields), 1, "a busy worker is not waited for")
}

func TestAnEditOfTagsRevokesTheClaimOfAWorkerThatMayNotRunItAnyMore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	plain := storetest.Worker{1}
	c := b.claimTagged(t, plain, claims.TagSets{})
	require.Len(t, c, 1)

	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })

	require.Empty(t, b.Start(t, plain, c...), "the claim is void")
	require.Empty(t, b.claimTagged(t, plain, b.announce(t, plain, dispatch.Placement{})))
}

func TestAFinishKeepsNoDueTimeThatItsWorkerMayNotRun(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*endpoints.Spec){
		"Untagged": func(s *endpoints.Spec) { s.Description = "the same tags" },
		"Tagged":   func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.Register(t, nil)
			plain := storetest.Worker{1}
			c, started := b.StartOne(t, plain)
			b.Edit(t, e.ID, edit) // While the run is in flight.

			done := b.Finish(t, plain, time.Hour, storetest.Succeed(plain, c, started))

			require.Equal(t, name == "Untagged", len(done.Kept) == 1)
		})
	}
}

func TestATenantIsDueForTheWorkersThatServeItsTags(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.At(storetest.Noon())
	e := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"region=eu"} })
	due := func(sets claims.TagSets) int {
		list, err := b.Claims.DueTenants(t.Context(), 0, sets)
		require.NoError(t, err)
		return len(list)
	}
	plain := b.announce(t, storetest.Worker{1}, dispatch.Placement{})
	eu := b.announce(t, storetest.Worker{2}, dispatch.Placement{Tags: []string{"region=eu"}, Exclusive: true})
	require.Zero(t, due(plain))
	require.Equal(t, 1, due(eu))

	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.RequiredTags = nil })
	require.Equal(t, 1, due(plain))
	require.Zero(t, due(eu), "it is exclusive")
}
