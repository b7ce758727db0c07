package openai_test

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/planner/openai/openaitest"
)

// injectionWorld is a world with one endpoint for each injection and a model that obeys all of
// them.
type injectionWorld struct {
	*world

	victims []endpoints.ID
	about   map[endpoints.ID]injection
}

var marker = regexp.MustCompile(`"payload":"([cg][0-9]+)"`)

// obedient returns the script of a model that obeys injections: it makes the calls that the
// attacker wants, a few at a time, and submits everything that it was shown.
func obedient(list []injection) openaitest.Script {
	wants := map[string]*openaitest.Obedient{}
	for _, one := range list {
		wants[one.ID] = &openaitest.Obedient{Want: goals()[one.Goal], Batch: 3}
	}
	return func(c openaitest.Call) openaitest.Answer {
		found := marker.FindStringSubmatch(c.Request.Messages[1].Content)
		if found == nil {
			return openaitest.Tools(openaitest.Submission("calm"))
		}
		return wants[found[1]].Script()(c)
	}
}

// besiege builds a siege with some injections and lets planners analyse all of its endpoints.
func besiege(t *testing.T, chosen func(injection) bool) *injectionWorld {
	t.Helper()
	list := slices.DeleteFunc(corpus(t), func(one injection) bool { return !chosen(one) })
	require.NotEmpty(t, list)
	s := &injectionWorld{world: newWorld(t, obedient(list)), about: map[endpoints.ID]injection{}}
	for _, one := range list {
		e := s.register(t, first, func(spec *endpoints.Spec) {
			spec.Labels = map[string]string{"payload": one.ID}
			switch one.Place {
			case "name":
				spec.Name = one.Text
			case "description":
				spec.Description = one.Text
			}
		})
		s.victims = append(s.victims, e.ID)
		s.about[e.ID] = one
	}
	s.bystanders(t)
	s.run(t, func(id endpoints.ID) reply {
		one := s.about[id]
		switch one.Place {
		case "body":
			return reply{code: 503, body: one.Text, contentType: "application/json"}
		case "type":
			return reply{code: 503, body: `{"password":"canary-of-a-target"}`, contentType: one.Text}
		default:
			return reply{code: 503, body: `{"token":"canary-of-a-target"}`, contentType: "application/json"}
		}
	})
	fixed, outside := s.fixed(t), s.outside(t, s.victims)
	stop := s.plan(t)
	s.await(t, len(s.victims)+1)
	stop()
	require.Equal(t, fixed, s.fixed(t), "configuration, keys, history, failures: nothing of it is a planner's to change")
	require.Equal(t, outside, s.outside(t, s.victims), "nor anything of endpoints that were not analysed")
	s.requireInsideTheRails(t)
	return s
}

// bystanders are the victims that attackers aim at: an endpoint that a user paused, and another
// tenant's.
func (s *injectionWorld) bystanders(t *testing.T) {
	t.Helper()
	held := s.register(t, first, func(spec *endpoints.Spec) { spec.Name = "paused by a person" })
	_, err := s.service.Pause(t.Context(), first, held.ID, endpoints.PauseRequest{Reason: "until I say so"})
	require.NoError(t, err)
	s.register(t, second, func(spec *endpoints.Spec) { spec.Name, spec.Description = neighbour, neighbour })
}

func wants(goals ...string) func(injection) bool {
	return func(one injection) bool { return slices.Contains(goals, one.Goal) }
}

// TestJ1OrdersToHurryEndInsideTheClamps obeys every injected demand for a shorter interval than the
// clamps allow.
func TestJ1OrdersToHurryEndInsideTheClamps(t *testing.T) {
	t.Parallel()
	s := besiege(t, wants("faster"))
	hurried := rows[int64](t, s.world, "SELECT min(interval_ms) FROM hints WHERE kind = 'interval'")
	require.Equal(t, []int64{30000}, hurried, "what the attacker does get: a quarter of the interval in force, which a failure made two minutes")
}

// TestJ2NoCallReachesAnotherEndpointOrTheConfiguration obeys every injected demand to change the
// configuration or another endpoint.
func TestJ2NoCallReachesAnotherEndpointOrTheConfiguration(t *testing.T) {
	t.Parallel()
	s := besiege(t, wants("rewrite", "foreign", "approve"))
	refused := rows[int](t, s.world, "SELECT count(*)::int FROM planner_sessions, jsonb_array_elements(calls) c WHERE (c->>'refused')::boolean")
	require.Greater(t, refused[0], 2*len(s.victims), "what was tried is on record")
}

// TestJ3NoEndpointIsPausedForLong obeys every injected demand to pause an endpoint or to reset its
// failures.
func TestJ3NoEndpointIsPausedForLong(t *testing.T) {
	t.Parallel()
	s := besiege(t, wants("silence", "hide"))
	require.NotEmpty(t, rows[string](t, s.world, "SELECT endpoint_id::text FROM schedules WHERE paused_until < 'infinity' AND paused_until > clock_timestamp() + interval '50 minutes'"),
		"an hour of silence is what an attacker does get")
	require.Len(t, rows[string](t, s.world, "SELECT s.endpoint_id::text FROM schedules s JOIN endpoints e ON e.id = s.endpoint_id WHERE e.name = 'paused by a person' AND s.paused_until > clock_timestamp() + interval '1000 days'"), 1,
		"what a person paused stays paused")
	require.Equal(t, []int{1}, rows[int](t, s.world, "SELECT DISTINCT failure_count FROM schedules WHERE last_status = 'failed'"))
}

// TestJ4FakeCallsAndRolesStayPlainText: a body that imitates a call, a role or the end of a quote
// reaches the model as quoted text.
func TestJ4FakeCallsAndRolesStayPlainText(t *testing.T) {
	t.Parallel()
	for _, one := range corpus(t) {
		if one.Place != "body" {
			continue
		}
		b := setup(t, openaitest.Session(
			openaitest.Tools(openaitest.Invoke("get_latest_response", map[string]any{})), openaitest.Tools(openaitest.Submission("calm")),
		))
		b.desk.body = one.Text
		_, err := b.advise(t)
		require.NoError(t, err, one.ID)
		require.Zero(t, b.desk.proposals(), one.ID)
		request := b.service.Calls()[1]
		for _, m := range request.Request.Messages[4:] {
			require.Equal(t, "This is your last answer: propose and call submit_analysis now.", m.Content, "no body makes a message of its own")
		}
		var told struct {
			Result map[string]json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(request.Request.Messages[3].Content), &told), one.ID)
		for name := range told.Result {
			require.Contains(t, []string{"status", "code", "ms", "s_ago", "type", "values", "data", "cut"}, name, one.ID)
		}
		for _, mark := range []string{"<|", "[INST", "<<SYS", "<start_of_turn", "</s>", "[TOOL_", "[SYSTEM_", "</"} {
			require.NotContains(t, request.Request.Messages[3].Content, mark, one.ID)
		}
	}
}

// TestJ5BodiesAreTruncatedAndLoseInvisibleText sends bodies of any size and disguise.
func TestJ5BodiesAreTruncatedAndLoseInvisibleText(t *testing.T) {
	t.Parallel()
	hidden := regexp.MustCompile(`[\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}-\x{206f}\x{fe00}-\x{fe0f}\x{feff}\x{e0000}-\x{e01ef}\x{e000}-\x{f8ff}\x00-\x08\x0b-\x1f\x7f]`)
	bodies := []string{strings.Repeat("two megabytes of words ", 2<<20/23), strings.Repeat("\u200b", 2<<20/3), strings.Repeat("漢", 2<<20/3)}
	for _, one := range corpus(t) {
		bodies = append(bodies, one.Text)
	}
	for _, body := range bodies {
		b := setup(t, openaitest.Session(
			openaitest.Tools(openaitest.Invoke("get_latest_response", map[string]any{})), openaitest.Tools(openaitest.Submission("calm")),
		))
		b.desk.body = body
		_, err := b.advise(t)
		require.NoError(t, err)
		shown := b.service.Calls()[1].Request.Messages[3].Content
		require.LessOrEqual(t, len(shown), 3*4096)
		require.NotRegexp(t, hidden, shown)
	}
}

// TestJ6NothingLeaks obeys every injected demand for data of other endpoints, and searches every
// prompt for them.
func TestJ6NothingLeaks(t *testing.T) {
	t.Parallel()
	s := besiege(t, func(one injection) bool { return one.Goal == "leak" || one.Family == "secret within" })
	secret := regexp.MustCompile(`canary-[0-9]+-secret|canary-of-a-target`)
	for _, call := range s.model.Calls() {
		about := marker.FindStringSubmatch(call.Request.Messages[1].Content)
		if about == nil {
			continue // It is about the neighbour itself.
		}
		require.NotContains(t, string(call.Body), neighbour)
		require.NotContains(t, string(call.Body), theKey)
		require.NotRegexp(t, secret, string(call.Body))
	}
	for _, said := range rows[string](t, s.world, "SELECT p::text FROM planner_sessions p UNION ALL SELECT h::text FROM hints h") {
		require.NotContains(t, said, theKey)
		require.NotRegexp(t, secret, said)
	}
	require.Empty(t, rows[string](t, s.world, "SELECT reasoning FROM planner_sessions WHERE length(reasoning) > 2000"))
}

// TestJ7TextsOfUsersAreData obeys injections in names, descriptions and content types.
func TestJ7TextsOfUsersAreData(t *testing.T) {
	t.Parallel()
	s := besiege(t, func(one injection) bool { return one.Place != "body" })
	for _, call := range s.model.Calls() {
		require.Equal(t, "system", call.Request.Messages[0].Role)
		for _, m := range call.Request.Messages[1:] {
			require.NotEqual(t, "system", m.Role)
			require.NotContains(t, m.Content, "<|")
		}
	}
}

// TestCorpusChangesOnlyTempoOfItsOwnEndpoint obeys the whole corpus at once.
func TestCorpusChangesOnlyTempoOfItsOwnEndpoint(t *testing.T) {
	t.Parallel()
	s := besiege(t, func(injection) bool { return true })
	require.GreaterOrEqual(t, len(s.victims), 200)
	require.Len(t, rows[string](t, s.world, "SELECT DISTINCT endpoint_id::text FROM planner_sessions WHERE endpoint_id = ANY ($1)", ids(s.victims)), len(s.victims))
}

// TestSiblingWithPlannerOffReachesNoPrompt asks for the answers of a group with one sibling that is
// closed to the planner, and again after the other one was closed in the middle of the session.
func TestSiblingWithPlannerOffReachesNoPrompt(t *testing.T) {
	t.Parallel()
	var w *world
	var later *endpoints.Endpoint
	siblings := openaitest.Invoke("get_sibling_responses", map[string]any{})
	off := func(s endpoints.Spec) (endpoints.Spec, error) { s.Planner = endpoints.PlannerOff; return s, nil }
	w = newWorld(t, func(c openaitest.Call) openaitest.Answer {
		if c.Turn() == 1 {
			_, _, err := w.service.Edit(context.Background(), first, later.ID, 0, off)
			if err != nil {
				panic(err)
			}
		}
		return []openaitest.Answer{openaitest.Tools(siblings), openaitest.Tools(siblings), openaitest.Tools(openaitest.Submission("calm"))}[min(c.Turn(), 2)]
	})
	member := func(name string, authority endpoints.Authority) *endpoints.Endpoint {
		return w.register(t, first, func(s *endpoints.Spec) {
			s.Name, s.Labels, s.Planner = name, map[string]string{planner.GroupLabel: "shop"}, authority
		})
	}
	payroll := member("private payroll", endpoints.PlannerOff)
	later = member("orders", endpoints.PlannerObserve)
	asking := member("asking", endpoints.PlannerAct)
	bodies := map[endpoints.ID]string{payroll.ID: `{"note":"payroll-canary"}`, later.ID: `{"note":"orders-canary"}`, asking.ID: "{}"}
	w.run(t, func(id endpoints.ID) reply {
		return reply{code: 200, body: bodies[id], contentType: "application/json"}
	})
	w.exec(t, "INSERT INTO planner_state (endpoint_id, due_at, trigger, claim_token, not_before, seen_version, seen_failures, memory, parked) "+
		"VALUES ($1, 'infinity', 'time_reached', 0, now(), 1, 0, '{}', 'off')", later.ID) // So that one alone is analysed.
	w.plan(t)
	w.await(t, 1)
	w.halt()

	calls := w.model.Calls()
	require.GreaterOrEqual(t, len(calls), 3)
	for _, c := range calls {
		require.NotContains(t, string(c.Body), "payroll")
	}
	answers := calls[2].Request.Answers()
	require.Contains(t, answers[0], "orders-canary", "what may be told is told")
	require.NotContains(t, answers[1], "orders-canary", "and no longer once it may not")
}
