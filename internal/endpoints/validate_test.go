package endpoints_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
	"rubato/internal/schedule"
)

// check returns the bad fields of the valid spec after an edit, as "field code", sorted.
func check(edit func(*endpoints.Spec)) []string {
	s := valid()
	edit(&s)
	var bad []string
	for _, f := range errs.FieldsOf(endpoints.NewValidator(targets{}).Check(endpoints.ID{1}, s)) {
		bad = append(bad, f.Field+" "+f.Code)
	}
	slices.Sort(bad)
	return bad
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

// TestEveryFieldHasItsBounds tries each bound from both sides. An empty want is a valid spec.
func TestEveryFieldHasItsBounds(t *testing.T) {
	t.Parallel()
	type spec = endpoints.Spec
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"NameEmpty":              {func(s *spec) { s.Name = "" }, "name required"},
		"NameOfSpaces":           {func(s *spec) { s.Name = " \t" }, "name required"},
		"NameOfATab":             {func(s *spec) { s.Name = "\t" }, "name required"},
		"NameWithABell":          {func(s *spec) { s.Name = "a\a" }, "name invalid_characters"},
		"NameOfTwoLines":         {func(s *spec) { s.Name = "a\r\nb" }, "name invalid_characters"},
		"NameNobodySees":         {func(s *spec) { s.Name = "\u200b \u2060\u0301" }, "name invalid_characters"},
		"NameWithNUL":            {func(s *spec) { s.Name = "a\x00" }, "name invalid_characters"},
		"NameNotUTF8":            {func(s *spec) { s.Name = "a\xff" }, "name invalid_characters"},
		"NameOf255":              {func(s *spec) { s.Name = strings.Repeat("ü", 255) }, ""},
		"NameOf256":              {func(s *spec) { s.Name = strings.Repeat("ü", 256) }, "name too_long"},
		"KeyOf100":               {func(s *spec) { s.Key = strings.Repeat("a", 100) }, ""},
		"KeyOf101":               {func(s *spec) { s.Key = strings.Repeat("a", 101) }, "key too_long"},
		"KeyOfAllKinds":          {func(s *spec) { s.Key = "0a.b-c_d" }, ""},
		"KeyWithCapitals":        {func(s *spec) { s.Key = "Nightly" }, "key invalid_characters"},
		"KeyWithADotFirst":       {func(s *spec) { s.Key = ".a" }, "key invalid_characters"},
		"KeyWithALineAfter":      {func(s *spec) { s.Key = "a\n" }, "key invalid_characters"},
		"DescriptionOfLines":     {func(s *spec) { s.Description = "a\r\n\tb" }, ""},
		"DescriptionWithNUL":     {func(s *spec) { s.Description = "a\x00" }, "description invalid_characters"},
		"DescriptionOf4000":      {func(s *spec) { s.Description = strings.Repeat("é", 4000) }, ""},
		"DescriptionOf4001":      {func(s *spec) { s.Description = strings.Repeat("é", 4001) }, "description too_long"},
		"Labels32":               {func(s *spec) { s.Labels = many(32) }, ""},
		"Labels33":               {func(s *spec) { s.Labels = many(33) }, "labels too_many"},
		"LabelWithoutName":       {func(s *spec) { s.Labels = map[string]string{"": "v"} }, "labels. required"},
		"LabelNameOf63":          {func(s *spec) { s.Labels = map[string]string{strings.Repeat("k", 63): ""} }, ""},
		"LabelNameOf64":          {func(s *spec) { s.Labels = map[string]string{strings.Repeat("k", 64): ""} }, "labels." + strings.Repeat("k", 64) + " too_long"},
		"LabelValueOf256":        {func(s *spec) { s.Labels = map[string]string{"k": strings.Repeat("v", 256)} }, "labels.k too_long"},
		"URLEmpty":               {func(s *spec) { s.URL = "" }, "url required"},
		"URLForbidden":           {func(s *spec) { s.URL = "http://forbidden" }, "url url_forbidden"},
		"MethodInLowerCase":      {func(s *spec) { s.Method = "post" }, "method method_invalid"},
		"MethodOfTwoWords":       {func(s *spec) { s.Method = "PO ST" }, "method method_invalid"},
		"MethodEmpty":            {func(s *spec) { s.Method = "" }, "method method_invalid"},
		"Headers64":              {func(s *spec) { s.Headers = many(64) }, ""},
		"Headers65":              {func(s *spec) { s.Headers = many(65) }, "headers too_many"},
		"HeaderOfOurs":           {func(s *spec) { s.Headers = map[string]string{"Host": "x"} }, "headers.Host header_forbidden"},
		"BodyOf256KiB":           {func(s *spec) { s.Method, s.Body = "POST", strings.Repeat("b", 256<<10) }, ""},
		"BodyOf256KiBAndAByte":   {func(s *spec) { s.Method, s.Body = "POST", strings.Repeat("b", 256<<10+1) }, "body too_long"},
		"BodyCountsBytes":        {func(s *spec) { s.Method, s.Body = "POST", strings.Repeat("ü", 128<<10+1) }, "body too_long"},
		"BodyOfHEAD":             {func(s *spec) { s.Method, s.Body = "HEAD", "x" }, "body body_not_allowed"},
		"IntervalOfASecond":      {func(s *spec) { s.BaselineInterval, s.Timeout = time.Second, time.Second }, ""},
		"IntervalBelowASecond":   {func(s *spec) { s.BaselineInterval = 999 * time.Millisecond }, "baselineIntervalMs out_of_range"},
		"IntervalNegative":       {func(s *spec) { s.BaselineInterval = -time.Minute }, "baselineIntervalMs out_of_range"},
		"IntervalOf366Days":      {func(s *spec) { s.BaselineInterval = 366 * day }, ""},
		"IntervalAbove366Days":   {func(s *spec) { s.BaselineInterval = 366*day + time.Millisecond }, "baselineIntervalMs out_of_range"},
		"MinOfASecond":           {func(s *spec) { s.MinInterval = time.Second }, ""},
		"MinBelowASecond":        {func(s *spec) { s.MinInterval = time.Millisecond }, "minIntervalMs out_of_range"},
		"MaxAbove366Days":        {func(s *spec) { s.MaxInterval = 366*day + 1 }, "maxIntervalMs out_of_range"},
		"MinIsMax":               {func(s *spec) { s.MinInterval, s.MaxInterval = time.Minute, time.Minute }, ""},
		"BudgetOfOverlapping":    {func(s *spec) { s.Overlap, s.Budget = governor.OverlapAllow, "60/h" }, "budget overlap_allowed"},
		"MinAboveMax":            {func(s *spec) { s.MinInterval, s.MaxInterval = time.Minute, time.Minute-1 }, "minIntervalMs clamp_order"},
		"MinWithoutMax":          {func(s *spec) { s.MinInterval = time.Minute }, ""},
		"JitterNegative":         {func(s *spec) { s.Jitter = -1 }, "jitterMs out_of_range"},
		"JitterOfADay":           {func(s *spec) { s.Jitter = day }, ""},
		"JitterAboveADay":        {func(s *spec) { s.Jitter = day + 1 }, "jitterMs out_of_range"},
		"TimeoutOfAMillisecond":  {func(s *spec) { s.Timeout = time.Millisecond }, ""},
		"TimeoutBelow":           {func(s *spec) { s.Timeout = time.Millisecond - 1 }, "timeoutMs out_of_range"},
		"TimeoutIsTheExecution":  {func(s *spec) { s.Timeout = s.MaxExecutionTime }, ""},
		"TimeoutAboveExecution":  {func(s *spec) { s.Timeout = s.MaxExecutionTime + time.Millisecond }, "timeoutMs timeout_order"},
		"ExecutionBelowASecond":  {func(s *spec) { s.MaxExecutionTime, s.Timeout = time.Second-1, time.Millisecond }, "maxExecutionTimeMs out_of_range"},
		"ExecutionOf30Minutes":   {func(s *spec) { s.MaxExecutionTime = 30 * time.Minute }, ""},
		"ExecutionAbove30Min":    {func(s *spec) { s.MaxExecutionTime = 30*time.Minute + time.Millisecond }, "maxExecutionTimeMs out_of_range"},
		"ResponseNone":           {func(s *spec) { s.MaxResponseKB = 0 }, ""},
		"ResponseOf1024":         {func(s *spec) { s.MaxResponseKB = 1024 }, ""},
		"ResponseOf1025":         {func(s *spec) { s.MaxResponseKB = 1025 }, "maxResponseKb out_of_range"},
		"ResponseNegative":       {func(s *spec) { s.MaxResponseKB = -1 }, "maxResponseKb out_of_range"},
		"Redirects10":            {func(s *spec) { s.FollowRedirects = 10 }, ""},
		"Redirects11":            {func(s *spec) { s.FollowRedirects = 11 }, "followRedirects out_of_range"},
		"SuccessEmpty":           {func(s *spec) { s.Success = "" }, "success invalid_value"},
		"SuccessInWords":         {func(s *spec) { s.Success = "often" }, "success invalid_value"},
		"SuccessOf256":           {func(s *spec) { s.Success = strings.Repeat("200,", 63) + "2xx," }, "success too_long"},
		"OverlapOfRunsUnknown":   {func(s *spec) { s.Overlap = "parallel" }, "overlap invalid_value"},
		"CatchUpUnknown":         {func(s *spec) { s.CatchUp = "some" }, "catchUp invalid_value"},
		"GapUnknown":             {func(s *spec) { s.DST.Gap = "jump" }, "dst.gap invalid_value"},
		"OverlapUnknown":         {func(s *spec) { s.DST.Overlap = "thrice" }, "dst.overlap invalid_value"},
		"AttemptsZero":           {func(s *spec) { s.Retry.MaxAttempts = 0 }, "retry.maxAttempts out_of_range"},
		"Attempts10":             {func(s *spec) { s.Retry.MaxAttempts = 10 }, ""},
		"Attempts11":             {func(s *spec) { s.Retry.MaxAttempts = 11 }, "retry.maxAttempts out_of_range"},
		"BackoffZero":            {func(s *spec) { s.Retry.Backoff = 0 }, "retry.backoffMs out_of_range"},
		"BackoffIsItsMax":        {func(s *spec) { s.Retry.Backoff, s.Retry.MaxBackoff = time.Hour, time.Hour }, ""},
		"BackoffAboveItsMax":     {func(s *spec) { s.Retry.Backoff = s.Retry.MaxBackoff + 1 }, "retry.backoffMs backoff_order"},
		"MaxBackoffAboveADay":    {func(s *spec) { s.Retry.MaxBackoff = day + 1 }, "retry.maxBackoffMs out_of_range"},
		"NoBaseline":             {func(s *spec) { s.BaselineInterval = 0 }, "baselineIntervalMs schedule_required"},
		"TwoBaselines":           {func(s *spec) { s.BaselineCron = "@hourly" }, "baselineCron schedule_ambiguous"},
		"CronGood":               {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "H 3 L * *" }, ""},
		"CronBad":                {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "61 * * * *" }, "baselineCron cron_invalid"},
		"CronWithZone":           {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "TZ=Europe/Rome" }, "baselineCron cron_invalid"},
		"CronThatNeverFires":     {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "0 0 31 4 *" }, "baselineCron cron_never_fires"},
		"ZoneUnknown":            {func(s *spec) { s.Timezone = "Europe/Nowhere" }, "timezone timezone_invalid"},
		"ZoneLocal":              {func(s *spec) { s.Timezone = "Local" }, "timezone timezone_invalid"},
		"ZoneOfAnIntervalToo":    {func(s *spec) { s.Timezone = "UTC+2" }, "timezone timezone_invalid"},
		"StartIn2020":            {func(s *spec) { s.StartAt = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }, ""},
		"StartBefore2020":        {func(s *spec) { s.StartAt = time.Date(2019, 12, 31, 23, 59, 59, 0, time.UTC) }, "startAt out_of_range"},
		"StartAtTheEndOfTime":    {func(s *spec) { s.StartAt = governor.Indefinite }, "startAt out_of_range"},
		"StartBeforeTheEnd":      {func(s *spec) { s.StartAt = governor.Indefinite.Add(-time.Second) }, ""},
		"EverythingAsItShouldBe": {func(*spec) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(check(tc.edit), ", ")
			require.Equal(t, tc.want, got)
		})
	}
}

func TestHeaderInTwoSpellingsIsRefused(t *testing.T) {
	t.Parallel()
	bad := check(func(s *endpoints.Spec) { s.Headers = map[string]string{"X-A": "1", "x-a": "1"} })
	require.Len(t, bad, 1)
	require.Contains(t, bad[0], "header_duplicate")
}

func TestEveryBadFieldIsNamedAtOnceAndOnce(t *testing.T) {
	t.Parallel()
	edit := func(s *endpoints.Spec) {
		s.Name, s.URL, s.Method = "", "http://forbidden", "post"
		s.BaselineInterval, s.BaselineCron, s.Timezone = 0, "* * * *", "Nowhere"
		s.MinInterval, s.MaxInterval = 2*time.Minute, time.Minute
		s.Timeout, s.MaxExecutionTime = time.Hour, time.Hour
		s.Success = "x"
		s.Retry = endpoints.Retry{}
	}
	require.Equal(t, []string{
		"baselineCron cron_invalid", "maxExecutionTimeMs out_of_range", "method method_invalid", "minIntervalMs clamp_order", "name required",
		"retry.backoffMs out_of_range", "retry.maxAttempts out_of_range", "retry.maxBackoffMs out_of_range", "success invalid_value",
		"timeoutMs out_of_range", "timezone timezone_invalid", "url url_forbidden",
	}, check(edit))
	s := valid()
	edit(&s)
	for _, f := range errs.FieldsOf(endpoints.NewValidator(targets{}).Check(endpoints.ID{}, s)) {
		require.NotEmpty(t, f.Message)
		require.NotContains(t, f.Message, "Key:", "messages are our own words")
	}
}

// TestBadFieldsComeInAStableOrder has many bad headers, because a map holds them.
func TestBadFieldsComeInAStableOrder(t *testing.T) {
	t.Parallel()
	s := valid()
	s.Headers = map[string]string{"HOST": "", "Host": "", "hOst": "", "hoSt": "", "host": "", "A": "", "a": ""}
	v := endpoints.NewValidator(targets{})
	first := errs.FieldsOf(v.Check(endpoints.ID{}, s))
	for range 50 {
		require.Equal(t, first, errs.FieldsOf(v.Check(endpoints.ID{}, s)))
	}
}

func TestNormalizeFillsTheDefaultThatDependsOnAnother(t *testing.T) {
	t.Parallel()
	for execution, want := range map[time.Duration]time.Duration{
		time.Minute: 30 * time.Second, 30 * time.Second: 30 * time.Second, 5 * time.Second: 5 * time.Second,
	} {
		require.Equal(t, want, endpoints.Spec{MaxExecutionTime: execution}.Normalize().Timeout)
	}
	s := endpoints.Spec{Timeout: time.Second, StartAt: time.Date(2030, 1, 1, 2, 0, 0, 1_999_999, time.FixedZone("", 7200))}.Normalize()
	require.Equal(t, time.Second, s.Timeout)
	require.Equal(t, time.Date(2030, 1, 1, 0, 0, 0, 1_000_000, time.UTC), s.StartAt)
	require.Equal(t, s, s.Normalize())
}

func TestIdempotentMethodsFollowTheStandard(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "PUT": true, "DELETE": true, "OPTIONS": true, "POST": false, "PATCH": false, "": false} {
		s := endpoints.Spec{Method: method}
		require.Equal(t, want, s.IdempotentMethod(), method)
	}
}

func TestSuccessRules(t *testing.T) {
	t.Parallel()
	for text, codes := range map[string][]int{
		"2xx": {200, 204, 299}, "2xx,304": {200, 299, 304}, " 200 , 404 ": {200, 404}, "1xx": {100, 199}, "5xx": {500, 599}, "599": {599},
	} {
		rule, err := endpoints.ParseSuccess(text)
		require.NoError(t, err, text)
		for _, code := range codes {
			require.True(t, rule.Match(code), "%d in %q", code, text)
		}
		for _, code := range []int{-1, 0, 99, 403, 600, 999} {
			require.False(t, rule.Match(code), "%d in %q", code, text)
		}
	}
	for _, text := range []string{"", ",", "200,", "6xx", "0xx", "2x", "2xxx", "099", "600", "20a", "+20", "2XX", "200;204", "-20"} {
		_, err := endpoints.ParseSuccess(text)
		require.Error(t, err, text)
	}
}

func TestWarningsNameProbableMistakes(t *testing.T) {
	t.Parallel()
	type spec = endpoints.Spec
	cron := func(s *spec) { s.BaselineInterval, s.BaselineCron, s.Timezone = 0, "30 2 * * *", "America/New_York" }
	for name, tc := range map[string]struct {
		edit func(*spec)
		want []string
	}{
		"None":               {func(*spec) {}, nil},
		"CronWithMin":        {func(s *spec) { cron(s); s.Timezone, s.MinInterval = "UTC", time.Hour }, []string{"minIntervalMs clamp_moves_cron"}},
		"CronWithMax":        {func(s *spec) { cron(s); s.Timezone, s.MaxInterval = "UTC", time.Hour }, []string{"maxIntervalMs clamp_moves_cron"}},
		"IntervalBelowMin":   {func(s *spec) { s.MinInterval = 61 * time.Second }, []string{"baselineIntervalMs baseline_outside_clamps"}},
		"IntervalIsMin":      {func(s *spec) { s.MinInterval = time.Minute }, nil},
		"IntervalAboveMax":   {func(s *spec) { s.MaxInterval = 59 * time.Second }, []string{"baselineIntervalMs baseline_outside_clamps"}},
		"TimeoutAboveTheGap": {func(s *spec) { s.BaselineInterval = 29 * time.Second }, []string{"timeoutMs timeout_exceeds_interval"}},
		"JitterAboveTheGap":  {func(s *spec) { s.Jitter = time.Minute + 1 }, []string{"jitterMs jitter_exceeds_interval"}},
		"JitterIsTheGap":     {func(s *spec) { s.Jitter = time.Minute }, nil},
		"JitterBelowMin":     {func(s *spec) { s.Jitter, s.MinInterval = time.Minute+1, 2*time.Minute }, []string{"baselineIntervalMs baseline_outside_clamps"}},
		"JitterAboveMax": {
			func(s *spec) { s.Jitter, s.MaxInterval = 2*time.Minute, 2*time.Minute-1 },
			[]string{"jitterMs jitter_exceeds_interval", "jitterMs jitter_exceeds_max"},
		},
		"JitterOfACron":      {func(s *spec) { cron(s); s.Timezone, s.Jitter = "UTC", 24*time.Hour+1 }, []string{"jitterMs jitter_exceeds_interval"}},
		"JitterIsTheCronGap": {func(s *spec) { cron(s); s.Timezone, s.Jitter = "UTC", 24*time.Hour }, nil},
		"HeaderInClear": {
			func(s *spec) {
				s.Headers = map[string]string{"X-Api-Key": "k", "Accept": "a/b", "Cookie": "", "Authorization": `Bearer {{secret "t"}}`}
			},
			[]string{"headers.X-Api-Key secret_in_clear"},
		},
		"ZoneThatSkips":   {cron, []string{"timezone clock_change"}},
		"ZoneThatDoesNot": {func(s *spec) { cron(s); s.Timezone = "Asia/Kolkata" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := &endpoints.Endpoint{Spec: valid()}
			tc.edit(&e.Spec)
			var got []string
			for _, w := range e.Warnings(start) {
				got = append(got, w.Field+" "+w.Code)
				require.NotEmpty(t, w.Message)
			}
			require.Equal(t, tc.want, got)
		})
	}
	e := &endpoints.Endpoint{Spec: valid()}
	e.State.IntervalHint = &endpoints.Hint{ExpiresAt: start.Add(1)}
	e.State.OneShotHint = &endpoints.Hint{ExpiresAt: start.Add(1)}
	require.Equal(t, "both_hints_live", e.Warnings(start)[0].Code)
	require.Empty(t, e.Warnings(start.Add(1)), "not when they have expired")
}

func TestIDSurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	id := endpoints.NewID()
	parsed, err := endpoints.ParseID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, parsed)
	require.Less(t, id.String(), endpoints.NewID().String(), "IDs sort by registration")
	for _, bad := range []string{"", "123", id.String()[3:], "run_" + id.String()[3:], id.String() + "0", "ep_{" + id.String()[3:] + "}", "ep_%ff"} {
		_, err := endpoints.ParseID(bad)
		require.Equal(t, errs.NotFound, errs.CodeOf(err), bad)
	}
}

func TestBytesThatAreNoTextAreNoID(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"ep_\xff", endpoints.NewID().String() + "\n"} {
		_, err := endpoints.ParseID(bad)
		require.Equal(t, errs.Malformed, errs.CodeOf(err), "%q", bad)
	}
}

// TestDefaultsAreValid also compares the defaults with the documented values.
func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(func(*endpoints.Spec) {}))
	d := endpoints.Defaults()
	require.Equal(t, "GET", d.Method)
	require.Equal(t, 100, d.MaxResponseKB)
	require.Equal(t, time.Minute, d.MaxExecutionTime)
	require.Equal(t, "2xx", d.Success)
	require.Equal(t, 1, d.Retry.MaxAttempts)
	require.Equal(t, endpoints.DST{Gap: schedule.GapRun, Overlap: schedule.OverlapOnce}, d.DST)
	require.Empty(t, slices.Collect(maps.Keys(d.Headers)))
}

// TestDeceptiveTextAndCronsAreRefused tries invisible characters beside legitimate scripts, and
// crons in other dialects.
func TestDeceptiveTextAndCronsAreRefused(t *testing.T) {
	t.Parallel()
	type spec = endpoints.Spec
	for name, tc := range map[string]struct {
		edit func(*spec)
		want string
	}{
		"NameTurnedAround":   {func(s *spec) { s.Name = "shop\u202elaw" }, "name invalid_characters"},
		"NameWithAnIsolate":  {func(s *spec) { s.Name = "a\u2066b\u2069" }, "name invalid_characters"},
		"NameWithAMark":      {func(s *spec) { s.Name = "a\u200fb" }, "name invalid_characters"},
		"NameWithABOM":       {func(s *spec) { s.Name = "a\ufeffb" }, "name invalid_characters"},
		"NameWithTags":       {func(s *spec) { s.Name = "a\U000e0041" }, "name invalid_characters"},
		"NameInPersian":      {func(s *spec) { s.Name = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645" }, ""},
		"NameOfAFamily":      {func(s *spec) { s.Name = "\U0001f468\u200d\U0001f469\u200d\U0001f467" }, ""},
		"NameWithAWideSpace": {func(s *spec) { s.Name = "\u6771\u4eac\u3000\u99c5" }, ""},
		"NameInHebrew":       {func(s *spec) { s.Name = "\u05d7\u05e0\u05d5\u05ea" }, ""},
		"LabelTurnedAround":  {func(s *spec) { s.Labels = map[string]string{"team": "a\u202eb"} }, "labels.team invalid_characters"},
		"DescriptionTurned":  {func(s *spec) { s.Description = "a\u202eb" }, "description invalid_characters"},
		"CronOfEventBridge":  {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "0 12 * * ? *" }, "baselineCron cron_invalid"},
		"CronWithATab":       {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "0\t12 * * *" }, "baselineCron cron_invalid"},
		"CronWithALineEnd":   {func(s *spec) { s.BaselineInterval, s.BaselineCron = 0, "0 12 * * *\n" }, "baselineCron cron_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, strings.Join(check(tc.edit), ", "))
		})
	}
}
