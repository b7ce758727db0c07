package house

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "rubato/"

// rule lists the packages of this module that a package may import, and the reason for its borders.
// Paths are relative to the module.
type rule struct {
	pkg    string
	may    []string
	reason string
}

// importRules are the only place of the import rules. A package without a rule is refused.
func importRules() []rule {
	return slices.Concat(programRules(), packageRules(), storeRules(), callRules())
}

// programRules are the rules of the programs.
func programRules() []rule {
	return []rule{
		{"api", nil, "the contract is text; everybody may read it"},
		{"client", nil, "generated for programs outside; it must build without the rest"},
		{"docs", nil, "the documentation is text"},
		{"migrations", nil, "the schema is text"},
		{"cmd/api", []string{"internal/app", "internal/app/apiserver", "internal/config"}, "a main passes flags and signals on, nothing else"},
		{"cmd/scheduler-worker", []string{"internal/app", "internal/config"}, "a main passes flags and signals on, nothing else"},
		{"cmd/planner", []string{"internal/app", "internal/config"}, "a main passes flags and signals on, nothing else"},
		{
			"cmd/rubato",
			[]string{"client", "internal/app", "internal/app/apiserver", "internal/app/dev", "internal/config", "internal/contract", "internal/notation", "internal/sourcetext"},
			"the command line talks to a server as any other client does",
		},
		{
			"internal/app",
			[]string{
				"internal/audit", "internal/auditlog", "internal/auth", "internal/calls", "internal/chains", "internal/claims", "internal/config", "internal/courier", "internal/dispatch",
				"internal/dispatch/ready", "internal/egress", "internal/endpoints", "internal/errs", "internal/loop", "internal/oauth2", "internal/placement", "internal/planner", "internal/planner/heuristic",
				"internal/planner/openai", "internal/replay",
				"internal/secrets", "internal/store/calls", "internal/store/chains", "internal/store/endpoints", "internal/store/history", "internal/store/hosts", "internal/store/items", "internal/store/keys", "internal/store/notices", "internal/store/pg", "internal/store/planner", "internal/store/spending", "internal/store/views",
				"internal/telemetry", "internal/tracing", "internal/zombie",
			},
			"what programs share, and those that serve nobody but operators: without the REST API, its contract and its pages in their memory",
		},
		{
			"internal/app/apiserver",
			[]string{
				"internal/apidocs", "internal/app", "internal/auth", "internal/calls", "internal/config", "internal/deadletters", "internal/dispatch", "internal/dispatch/request", "internal/endpoints", "internal/errs",
				"internal/hosts", "internal/httpapi", "internal/loop", "internal/mcp", "internal/notices", "internal/secrets", "internal/signing", "internal/simulate", "internal/spending",
				"internal/store/calls", "internal/store/deadletters", "internal/store/endpoints", "internal/store/fleet", "internal/store/history", "internal/store/hosts", "internal/store/items", "internal/store/keys", "internal/store/notices", "internal/store/planner", "internal/store/spending", "internal/store/views", "internal/telemetry",
				"internal/web",
			},
			"the one place that knows what the API server is made of",
		},
		{
			"internal/app/dev",
			[]string{
				"internal/app", "internal/app/apiserver", "internal/auth", "internal/callbacks", "internal/config", "internal/devpg", "internal/endpoints",
				"internal/secrets", "internal/store/keys", "internal/web",
			},
			"all programs in one, and nothing that they do not do",
		},
	}
}

// packageRules are the rules of the packages.
func packageRules() []rule {
	return []rule{
		{
			"internal/audit",
			[]string{"internal/endpoints", "internal/runs"},
			"it believes neither the programs nor the store, so it reads the tables for itself",
		},
		{"internal/apidocs", []string{"internal/answers"}, "a page knows nothing of what it describes"},
		{"internal/answers", nil, "how an answer is sent or recorded does not depend on its content"},
		{"internal/auditlog", nil, "what an entry says does not depend on what is changed or where it is kept"},
		{"internal/auth", []string{"internal/auditlog", "internal/errs", "internal/ids"}, "keys are judged without knowing where they are kept or who asks"},
		{"internal/budget", nil, "what work may take does not depend on what the work is"},
		{"internal/claims", []string{"internal/loop"}, "the rules of the lock stand alone, so that they can be read alone"},
		{"internal/sourcetext", []string{"client"}, "the words for a decision are the same on every screen"},
		{"internal/contract", []string{"api"}, "the fields of an endpoint are described in one place; how a screen shows them is not"},
		{"internal/config", []string{"internal/errs", "internal/notation", "internal/placement"}, "settings are values; who uses them is not their business"},
		{"internal/courier", []string{"internal/auditlog", "internal/egress", "internal/failpoint", "internal/hosts", "internal/loop", "internal/notices", "internal/oauth2", "internal/secrets", "internal/signing", "internal/telemetry"}, "a notice goes out without knowing what the database is, and past the guard like any call; a receiver that fails is left alone like a host"},
		{"internal/devpg", nil, "a Postgres for development knows no Rubato"},
		{"internal/devpg/devpgtest", []string{"internal/devpg"}, "test helpers know what they help to test"},
		{"internal/dispatch", []string{"internal/callbacks", "internal/claims", "internal/dispatch/ready", "internal/dispatch/request", "internal/egress", "internal/endpoints", "internal/errs", "internal/failpoint", "internal/governor", "internal/hosts", "internal/loop", "internal/runs", "internal/telemetry", "internal/template"}, "a run is carried out without knowing what the database is"},
		{"internal/dispatch/request", []string{"internal/auditlog", "internal/budget", "internal/callbacks", "internal/chains", "internal/change", "internal/egress", "internal/endpoints", "internal/errs", "internal/governor", "internal/oauth2", "internal/redact", "internal/runs", "internal/secrets", "internal/signing", "internal/success", "internal/template"}, "one exchange is made and judged without knowing claims, locks and the database"},
		{"internal/dispatch/ready", nil, "concurrency is limited without knowing what a run or a request is"},
		{"internal/egress", nil, "the guarded call knows nothing of schedules"},
		{"internal/egress/egresstest", nil, "hostile targets for tests"},
		{
			"internal/endpoints",
			[]string{
				"internal/auditlog", "internal/change", "internal/errs", "internal/governor", "internal/ids", "internal/pattern", "internal/placement", "internal/redact", "internal/schedule",
				"internal/spending", "internal/success", "internal/template", "internal/tempo",
			},
			"the domain asks the governor; it reads no clock and knows no database",
		},
		{"internal/errs", nil, "what crosses every border depends on nothing"},
		{"internal/failpoint", nil, "moments at which a test may break a process; absent from ordinary builds"},
		{"internal/feed", []string{"internal/errs", "internal/runs"}, "what is told does not depend on where it is kept or how it is sent"},
		{"internal/forwarded", nil, "where a request comes from does not depend on what it asks for"},
		{"internal/governor", nil, "a decision depends on its input alone"},
		{
			"internal/httpapi",
			[]string{
				"api", "internal/answers", "internal/auditlog", "internal/auth", "internal/callbacks", "internal/calls", "internal/chains", "internal/deadletters", "internal/endpoints", "internal/errs", "internal/feed",
				"internal/forwarded", "internal/governor", "internal/hosts", "internal/httpapi/api", "internal/idempotency", "internal/jsonpath",
				"internal/notation", "internal/notices", "internal/planner", "internal/runs", "internal/secrets", "internal/signing", "internal/simulate", "internal/spending",
				"internal/stats", "internal/telemetry", "internal/tempo",
			},
			"handlers translate between the contract and the domain; they know no database; of jsonpath they take how numbers compare; a shadow policy is scored by the simulation",
		},
		{"internal/callbacks", []string{"internal/errs", "internal/runs"}, "a report is checked without knowing how it is sent or stored"},
		{"internal/calls", []string{"internal/auditlog", "internal/endpoints", "internal/errs", "internal/ids", "internal/runs"}, "a call is checked without knowing where it is kept"},
		{"internal/chains", []string{"internal/auditlog", "internal/budget", "internal/calls", "internal/endpoints", "internal/errs", "internal/ids", "internal/jsonpath", "internal/success", "internal/template"}, "a chain is decided without knowing where it is kept"},
		{"internal/deadletters", []string{"internal/auditlog", "internal/calls", "internal/endpoints", "internal/errs", "internal/ids", "internal/runs", "internal/secrets"}, "a dead letter is read and replayed without knowing where it is kept"},
		{"internal/httpapi/api", nil, "generated from the contract"},
		{"internal/hosts", []string{"internal/auditlog", "internal/errs"}, "whether a host may be called does not depend on where that is kept or who calls"},
		{"internal/idempotency", nil, "how often a request is carried out depends on neither HTTP nor SQL"},
		{"internal/ids", []string{"internal/errs"}, "how a name is read and written does not depend on what it names"},
		{"internal/change", []string{"internal/budget", "internal/jsonpath", "internal/runs"}, "what counts as a change depends on the answers alone, and a digest is that of runs"},
		{"internal/jsonpath", []string{"internal/budget"}, "where something stands in a document does not depend on who asks"},
		{"internal/notices", []string{"internal/auditlog", "internal/endpoints", "internal/errs", "internal/secrets"}, "what is told, and when, does not depend on how it is kept or sent"},
		{"internal/redact", []string{"internal/auditlog", "internal/budget", "internal/jsonpath", "internal/pattern"}, "what is hidden does not depend on where the rest is kept"},
		{"internal/pattern", []string{"internal/budget"}, "how long a pattern may take does not depend on what it is looked for in"},
		{"internal/oauth2", []string{"internal/egress"}, "a token is got by the guarded call, and belongs to no run"},
		{
			"internal/planner",
			[]string{"internal/auditlog", "internal/endpoints", "internal/errs", "internal/failpoint", "internal/governor", "internal/ids", "internal/loop", "internal/planner/untrusted", "internal/runs", "internal/telemetry", "internal/tempo"},
			"the rails hold whoever advises and wherever sessions are kept; answers are made harmless before anybody advises by them",
		},
		{"internal/planner/heuristic", []string{"internal/planner"}, "an advisor sees the case and the desk, nothing else"},
		{
			"internal/planner/openai",
			[]string{"internal/egress", "internal/endpoints", "internal/errs", "internal/hosts", "internal/planner", "internal/planner/untrusted"},
			"an advisor sees the case and the desk, nothing else; of egress it takes how a Retry-After is read, of hosts how a breaker decides",
		},
		{"internal/planner/openai/openaitest", nil, "a scripted service for tests"},
		{"internal/planner/untrusted", nil, "texts of strangers are cleaned without knowing whose they are"},
		{"internal/mcp", []string{"api", "docs", "internal/answers", "internal/auth", "internal/errs", "internal/forwarded"}, "tools are made from the contract, and calls go through the API; nothing else is known"},
		{
			"internal/replay",
			[]string{"internal/endpoints", "internal/governor", "internal/runs", "internal/schedule", "internal/store/history", "internal/tempo"},
			"the shipped rules decide again; of the store it takes how their input is kept, and it reads the tables for itself",
		},
		{"internal/runs", []string{"internal/auditlog", "internal/ids"}, "what a run is does not depend on who runs it"},
		{"internal/schedule", []string{"internal/errs"}, "cron is arithmetic"},
		{"internal/placement", nil, "which worker may run an endpoint depends on tags alone"},
		{"internal/notation", nil, "how a value is written does not depend on its use"},
		{"internal/stats", []string{"internal/ids", "internal/placement", "internal/tempo"}, "the numbers of the API and the console do not depend on where they are kept; a likeliest rate is that of its looks"},
		{"internal/secrets", []string{"internal/auditlog", "internal/errs"}, "a secret is sealed and named without knowing where it is kept or who asks"},
		{"internal/signing", []string{"internal/auditlog", "internal/errs", "internal/ids", "internal/secrets"}, "what is signed does not depend on who sends it or where keys are kept"},
		{"internal/success", []string{"internal/budget", "internal/jsonpath", "internal/pattern"}, "an answer is judged by what came, whoever asked for it"},
		{"internal/loop", nil, "how a loop recovers does not depend on what it does"},
		{"internal/telemetry", nil, "logs and metrics take values"},
		{
			"internal/tracing",
			[]string{"internal/claims", "internal/dispatch", "internal/egress", "internal/endpoints", "internal/runs"},
			"it stands around what it follows; what it follows does not know it",
		},
		{"internal/tempo", []string{"internal/runs"}, "how a rate is learnt depends on the looks alone, and runs say which digests compare"},
		{"internal/spending", []string{"internal/auditlog", "internal/errs", "internal/tempo"}, "what is shared does not depend on where it is kept or who spends it"},
		{"internal/template", []string{"internal/schedule"}, "what a template yields depends on its text and its values alone"},
		{"internal/waittest", nil, "any test may wait"},
		{
			"internal/simulate",
			[]string{
				"internal/budget", "internal/change", "internal/endpoints", "internal/errs", "internal/governor", "internal/notation", "internal/planner",
				"internal/planner/heuristic", "internal/runs", "internal/spending", "internal/store/history", "internal/tempo",
			},
			"what is simulated is the shipped code, and nothing of it is copied; of the store it takes how a finished run is read",
		},
		{
			"internal/web",
			[]string{"client", "docs", "internal/answers", "internal/auth", "internal/contract", "internal/endpoints", "internal/errs", "internal/forwarded", "internal/governor", "internal/notation", "internal/schedule", "internal/sourcetext", "internal/stats"},
			"the console is a client of the API; what it foresees of a draft, the domain tells, and it shows the card that the documents carry",
		},
		{"internal/zombie", []string{"internal/errs", "internal/failpoint", "internal/loop", "internal/placement", "internal/runs", "internal/telemetry"}, "the sweeper settles runs and knows nothing of how they are carried out"},
	}
}

// storeRules are the rules of the packages of the store, in the order of their imports.
func storeRules() []rule {
	return []rule{
		{
			"internal/store/pg",
			[]string{"internal/auditlog", "internal/errs", "internal/idempotency", "internal/secrets", "internal/store/dbsqlc", "migrations"},
			"pools, transactions and codecs do not depend on the stores that use them; of secrets it takes the form of a name",
		},
		{
			"internal/store/history",
			[]string{
				"internal/auditlog", "internal/endpoints", "internal/errs", "internal/feed", "internal/governor", "internal/runs",
				"internal/store/dbsqlc", "internal/store/pg", "internal/tempo",
			},
			"a record does not depend on the change that writes it; of tempo it takes how a filter is stored",
		},
		{
			"internal/store/notices",
			[]string{
				"internal/auditlog", "internal/endpoints", "internal/errs", "internal/notices", "internal/runs",
				"internal/store/dbsqlc", "internal/store/history", "internal/store/pg",
			},
			"an episode opens in the transaction of its cause, so the stores of causes import it",
		},
		{
			"internal/store/endpoints",
			[]string{
				"internal/auditlog", "internal/deadletters", "internal/dispatch/request", "internal/endpoints", "internal/errs", "internal/governor", "internal/notices",
				"internal/runs", "internal/schedule", "internal/secrets", "internal/spending",
				"internal/store/dbsqlc", "internal/store/history", "internal/store/notices", "internal/store/pg", "internal/tempo",
			},
			"a change replans and records in one transaction, dead letters included; it caches the prepared target of requests",
		},
		{
			"internal/store/items",
			[]string{
				"internal/auditlog", "internal/calls", "internal/change", "internal/claims", "internal/deadletters", "internal/dispatch", "internal/dispatch/request", "internal/endpoints", "internal/errs", "internal/feed",
				"internal/governor", "internal/runs", "internal/spending",
				"internal/store/calls", "internal/store/dbsqlc", "internal/store/endpoints", "internal/store/history", "internal/store/notices", "internal/store/pg",
				"internal/template", "internal/zombie",
			},
			"it implements the stores of claims, dispatch and zombie; a finish replans, records and opens episodes in one transaction",
		},
		{
			"internal/store/planner",
			[]string{
				"internal/auditlog", "internal/endpoints", "internal/errs", "internal/notices", "internal/planner", "internal/runs",
				"internal/store/dbsqlc", "internal/store/endpoints", "internal/store/history", "internal/store/notices", "internal/store/pg",
			},
			"a plan is a change of an endpoint, so it goes the way of changes",
		},
		{
			"internal/store/keys",
			[]string{
				"internal/auditlog", "internal/auth", "internal/deadletters", "internal/endpoints", "internal/errs", "internal/idempotency", "internal/secrets",
				"internal/signing", "internal/store/dbsqlc", "internal/store/pg",
			},
			"keys and secrets are stored without knowing the runs that use them",
		},
		{
			"internal/store/hosts",
			[]string{"internal/auditlog", "internal/hosts", "internal/notices", "internal/store/dbsqlc", "internal/store/notices", "internal/store/pg"},
			"breakers are kept without knowing what is called; the transaction that opens one writes its notice",
		},
		{
			"internal/store/chains",
			[]string{
				"internal/auditlog", "internal/calls", "internal/chains", "internal/endpoints", "internal/errs", "internal/failpoint", "internal/loop", "internal/runs",
				"internal/store/calls", "internal/store/dbsqlc", "internal/store/endpoints", "internal/store/history", "internal/store/pg",
			},
			"the runs of chains and their one-off runs are rows that change in one transaction",
		},
		{
			"internal/store/deadletters",
			[]string{
				"internal/auditlog", "internal/calls", "internal/deadletters", "internal/endpoints", "internal/errs", "internal/runs", "internal/secrets",
				"internal/store/calls", "internal/store/dbsqlc", "internal/store/endpoints", "internal/store/pg",
			},
			"a replay handles the dead letter, and changes its endpoint or inserts its call, in one transaction",
		},
		{
			"internal/store/spending",
			[]string{
				"internal/auditlog", "internal/errs", "internal/loop", "internal/spending", "internal/store/dbsqlc", "internal/store/endpoints", "internal/store/pg",
				"internal/tempo",
			},
			"it prices the runs that finishes count with the states of endpoints",
		},
		{
			"internal/store/fleet",
			[]string{"internal/auditlog", "internal/errs", "internal/stats", "internal/store/dbsqlc", "internal/store/pg"},
			"an order to a worker changes its row and no endpoint",
		},
		{
			"internal/store/views",
			[]string{
				"internal/auditlog", "internal/errs", "internal/feed", "internal/governor", "internal/runs", "internal/stats",
				"internal/store/dbsqlc", "internal/store/history", "internal/store/pg", "internal/telemetry", "internal/tempo",
			},
			"it reads the tables of every store, and depends on none that changes them",
		},
		{
			"internal/store/storetest",
			[]string{
				"internal/auditlog", "internal/claims", "internal/devpg/devpgtest", "internal/dispatch", "internal/endpoints", "internal/errs",
				"internal/notices", "internal/runs", "internal/secrets", "internal/store/dbsqlc", "internal/store/endpoints",
				"internal/store/history", "internal/store/items", "internal/store/keys", "internal/store/notices", "internal/store/pg",
				"internal/store/views", "internal/waittest", "internal/zombie",
			},
			"test helpers know what they help to test",
		},
		{"internal/store/dbsqlc", nil, "generated from SQL"},
	}
}

// callRules are the rules of the store of calls.
func callRules() []rule {
	return []rule{
		{
			"internal/store/calls",
			[]string{
				"internal/auditlog", "internal/calls", "internal/endpoints", "internal/errs", "internal/governor", "internal/runs", "internal/store/dbsqlc",
				"internal/store/endpoints", "internal/store/history", "internal/store/pg",
			},
			"calls in their tables, inserted in groups; their finishes are internal/store/items",
		},
	}
}

// owners lists the packages that may use a library which is forbidden to the others.
func owners() []rule {
	return []rule{
		{"github.com/labstack/echo/", []string{"internal/httpapi", "internal/httpapi/api"}, "the HTTP framework is a detail of the REST API"},
		{"github.com/robfig/cron/", []string{"internal/schedule"}, "it panics on some input and misses clock changes; schedule guards it"},
		{
			"github.com/jackc/pgx/",
			[]string{
				"internal/audit", "internal/devpg", "internal/devpg/devpgtest", "internal/replay", "internal/store/dbsqlc",
				"internal/store/calls", "internal/store/chains", "internal/store/deadletters", "internal/store/endpoints", "internal/store/fleet", "internal/store/history", "internal/store/hosts", "internal/store/items", "internal/store/keys", "internal/store/notices",
				"internal/store/pg", "internal/store/planner", "internal/store/spending", "internal/store/views", "test/bench/internal/bench",
			},
			"only the store knows SQL, beside the private Postgres itself and those who check and measure the store",
		},
		{"cel.dev/cel-go/", []string{"internal/success"}, "expressions of users are evaluated in one place, within its cost limit"},
		{"github.com/theory/jsonpath", []string{"internal/jsonpath"}, "its own search knows no bounds; jsonpath walks by what it parsed"},
		{"database/sql", []string{"internal/store/pg"}, "only the store knows SQL"},
		{"github.com/pressly/goose/", []string{"internal/store/pg"}, "only the store changes the schema"},
		{
			module + "internal/store/dbsqlc",
			[]string{
				"internal/store/calls", "internal/store/chains", "internal/store/deadletters", "internal/store/endpoints", "internal/store/fleet", "internal/store/history", "internal/store/hosts", "internal/store/items", "internal/store/keys", "internal/store/notices",
				"internal/store/pg", "internal/store/planner", "internal/store/spending", "internal/store/views",
			},
			"rows stay in the store",
		},
		{"github.com/alecthomas/kong", []string{"cmd/rubato", "test/bench"}, "only the rubato command has commands, beside the bench"},
		{"go.opentelemetry.io/otel/sdk", []string{"internal/tracing"}, "one place decides which traces are made and where they go"},
		{"github.com/exaring/otelpgx", []string{"internal/store/pg"}, "only the store knows SQL"},
		{"code.dny.dev/ssrf", []string{"internal/egress"}, "one place judges addresses"},
		{"github.com/a-h/templ", []string{"internal/web"}, "only the console writes pages"},
		{"github.com/chromedp/", nil, "a program must not carry test code"},
		{"github.com/sashabaranov/go-openai", []string{"internal/planner/openai"}, "its errors repeat what services write; one place strips them"},
		{module + "internal/planner/openai/openaitest", nil, "a program must not carry test code"},
		{"github.com/google/go-cmp", nil, "a program must not carry test code"},
		{"github.com/stretchr/testify", nil, "a program must not carry test code"},
		{"pgregory.net/rapid", nil, "a program must not carry test code"},
		{module + "internal/devpg/devpgtest", nil, "a program must not carry test code"},
		{module + "internal/egress/egresstest", nil, "a program must not carry test code"},
		{module + "internal/store/storetest", nil, "a program must not carry test code"},
		{module + "internal/waittest", nil, "a program must not carry test code"},
	}
}

// listed is the output of the go command about a package.
type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	Standard   bool
}

// packages returns the packages that go list finds for patterns in the root of the module.
func packages(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json=ImportPath,Dir,Imports,Standard"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	var list []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, p)
	}
}

// ours returns a package's imports from this module, as relative paths.
func (p listed) ours() []string {
	var list []string
	for _, path := range p.Imports {
		if name, found := strings.CutPrefix(path, module); found {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

func TestPackagesFollowImportRules(t *testing.T) {
	t.Parallel()
	rules := map[string]rule{}
	for _, r := range importRules() {
		require.True(t, slices.IsSorted(r.may), "the imports of %s are not sorted", r.pkg)
		rules[r.pkg] = r
	}
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "test/") { // Tests of the whole may import everything.
			continue
		}
		r, known := rules[name]
		if !known {
			t.Errorf("%s has no import rule: say in importRules what it may import, and why", name)
			continue
		}
		delete(rules, name)
		for _, path := range p.ours() {
			if !slices.Contains(r.may, path) {
				t.Errorf("%s must not import %s: %s", name, path, r.reason)
			}
		}
		for _, path := range r.may {
			if !slices.Contains(p.ours(), path) {
				t.Errorf("%s may import %s and does not: take the permission back", name, path)
			}
		}
	}
	for name := range rules {
		t.Errorf("importRules names %s, which does not exist", name)
	}
}

func TestLibrariesStayWithTheirOwners(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasSuffix(name, "test") { // Test helpers are test code.
			continue
		}
		for _, path := range p.Imports {
			for _, o := range owners() {
				if strings.HasPrefix(path, o.pkg) && !slices.Contains(o.may, name) {
					t.Errorf("%s must not import %s: %s", name, path, o.reason)
				}
			}
		}
	}
}

// TestProgramsLinkNoTestCode checks that no program for users links the bench or other test code.
func TestProgramsLinkNoTestCode(t *testing.T) {
	t.Parallel()
	linked := packages(t, "-deps", "./cmd/...")
	require.NotEmpty(t, linked)
	for _, p := range linked {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		foreign := strings.HasPrefix(name, "test/") || path.Base(name) == "bench"
		require.False(t, ours && foreign, "a program links %s", p.ImportPath)
	}
}

func TestGovernorAndErrsNeedTheStandardLibraryAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"internal/governor", "internal/errs"} {
		for _, p := range packages(t, "-deps", "./"+name) {
			if !p.Standard && p.ImportPath != module+name {
				t.Errorf("%s depends on %s", name, p.ImportPath)
			}
		}
	}
}
