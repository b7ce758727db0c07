package template_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/template"
)

// vault is secrets by their names.
type vault map[string]string

var errNoSecret = errors.New("there is no such secret")

func (v vault) Secret(name string) (string, error) {
	if s, known := v[name]; known {
		return s, nil
	}
	return "", errNoSecret
}

func labels() map[string]string {
	return map[string]string{"team": "Blue & White", "app.kubernetes.io/name": "shop", "up": "..", "plain": "blue"}
}

func values() *template.Values {
	return &template.Values{
		Run:      template.Run{ID: "run_1", Attempt: 2, ScheduledFor: time.Date(2026, 11, 21, 23, 30, 5, 7_000_000, time.UTC)},
		Endpoint: template.Endpoint{ID: "ep_1", Name: `The "shop" <main>`, Key: "shop", Labels: labels()},
		Last:     template.Last{Status: "failed", StatusCode: 503, FinishedAt: time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC)},
		Secrets:  vault{"token": "s3cr&t", "breaking": "a\r\nX-Admin: 1", "binary": "\xff\xfe"},
	}
}

func parse(t *testing.T, text string, field template.Field) *template.Template {
	t.Helper()
	parsed, faults := template.Parse(text, template.Options{Field: field, Labels: labels()})
	require.Empty(t, faults)
	require.NotNil(t, parsed)
	return parsed
}

// TestValuesStandInTheirFields has every name, every filter and every field.
func TestValuesStandInTheirFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		field      template.Field
		text, want string
	}{
		"Names":           {template.Text, "{{run.id}} {{ run.attempt }} {{endpoint.id}} {{endpoint.key}} {{last.status}} {{last.statusCode}}", "run_1 2 ep_1 shop failed 503"},
		"Instants":        {template.Text, "{{run.scheduledFor}} {{last.finishedAt | unix}} {{run.scheduledFor|unixMilli}}", "2026-11-21T23:30:05.007Z 1795136523 1795303805007"},
		"Dates":           {template.Text, `{{run.scheduledFor | date "%Y/%m/%d %H:%M:%S.%L %j %z %a %b 100%%"}}`, "2026/11/21 23:30:05.007 325 +0000 Sat Nov 100%"},
		"DatesOfAZone":    {template.Text, `{{run.scheduledFor | date "%F %T" "Europe/Berlin"}}`, "2026-11-22 00:30:05"},
		"Labels":          {template.Text, `{{endpoint.labels.team}} {{endpoint.labels["app.kubernetes.io/name"]}}`, "Blue & White shop"},
		"Secrets":         {template.Text, `{{secret "token"}}{{secret 'token' | base64}}`, "s3cr&tczNjciZ0"},
		"Filters":         {template.Text, `{{endpoint.key | upper | base64}} {{"A B" | lower | urlquery}} {{endpoint.name | json}}`, `U0hPUA== a%20b "The \"shop\" <main>"`},
		"Defaults":        {template.Text, `{{endpoint.labels.none | default "x" | upper}}{{endpoint.labels.plain | default "y"}}`, "Xblue"},
		"Strings":         {template.Text, `{{"{{"}}x}} {{'a\'b\\n\n'}}`, "{{x}} a'b\\n\n"},
		"Spaces":          {template.Text, "{{\n\trun.id\r\n}}", "run_1"},
		"Path":            {template.URL, "https://a.example/{{endpoint.labels.team}}/{{endpoint.name}}", "https://a.example/Blue%20%26%20White/The%20%22shop%22%20%3Cmain%3E"},
		"PathAndQuery":    {template.URL, `https://a.example:8443/{{"a/b?c#d"}}?t={{secret "token"}}&at={{run.scheduledFor}}#end`, "https://a.example:8443/a%2Fb%3Fc%23d?t=s3cr%26t&at=2026-11-21T23%3A30%3A05.007Z#end"},
		"QueryAlone":      {template.URL, `https://a.example?x={{"&y=1" | urlquery}}/../{{run.attempt}}`, "https://a.example?x=%26y%3D1/../2"},
		"Header":          {template.Header, `Bearer {{secret "token"}}`, "Bearer s3cr&t"},
		"JSONStrings":     {template.JSON, `{"n":"<{{endpoint.name}}>","b":"\\{{run.id}}","é":"{{'"\n'}}"}`, `{"n":"<The \"shop\" <main>>","b":"\\run_1","é":"\"\n"}`},
		"JSONValues":      {template.JSON, `[{{endpoint.name}}, {{run.attempt}},{{ last.statusCode }} , {{run.scheduledFor}},{{run.scheduledFor|unix}},{"a":{{endpoint.labels.none|default ""}}}]`, `["The \"shop\" <main>", 2,503 , "2026-11-21T23:30:05.007Z",1795303805,{"a":""}]`},
		"JSONOfJSON":      {template.JSON, `{"a":{{endpoint.name | json}},"b":"{{endpoint.name | json}}"}`, `{"a":"The \"shop\" <main>","b":"\"The \\\"shop\\\" <main>\""}`},
		"JSONAlone":       {template.JSON, ` {{endpoint.key}} `, ` "shop" `},
		"Form":            {template.Form, `a={{endpoint.labels.team}}&b={{"x=1&y" | urlquery}}`, "a=Blue%20%26%20White&b=x%3D1%26y"},
		"XML":             {template.XML, `<a b="{{endpoint.name}}"/>`, `<a b="The &#34;shop&#34; &lt;main&gt;"/>`},
		"NumbersOfText":   {template.JSON, `{{run.attempt | upper}}`, `"2"`},
		"DefaultOfNumber": {template.JSON, `{{last.statusCode | default 0}}`, `503`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(t, tc.text, tc.field).Render(values(), 1000)
			require.NoError(t, err)
			if tc.field == template.JSON {
				require.True(t, json.Valid([]byte(got)), got)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// TestUnknownValuesAreEmpty: before the first run there is no last one.
func TestUnknownValuesAreEmpty(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`<{{last.status}}{{last.statusCode}}{{last.finishedAt}}{{last.finishedAt | date "%F"}}>`: "<>",
		`{{last.status | default "none"}} {{last.finishedAt | default "never"}}`:                 "none never",
		`{{last.finishedAt | default "never" | date "%F"}}`:                                      "never",
		`{{last.finishedAt | unix | default 0}}`:                                                 "0",
	} {
		got, err := parse(t, text, template.Text).Render(&template.Values{}, 100)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	got, err := parse(t, `[{{last.status}},{{last.statusCode}},{{last.finishedAt | unix}},"{{last.status}}",{{last.statusCode | default 0}}]`, template.JSON).
		Render(&template.Values{}, 100)
	require.NoError(t, err)
	require.Equal(t, `[null,null,null,"",0]`, got)
}

// TestFaultsAreNamedWithTheirPlaces has every complaint of the parser.
func TestFaultsAreNamedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		field      template.Field
		text, want string
	}{
		"Unclosed":          {template.Text, "a\nbé {{run.id", "line 2, column 4: "},
		"UnclosedTells":     {template.Text, "{{run.id", "end it with }}"},
		"UnclosedString":    {template.Text, `{{"abc}}`, `line 1, column 3: the string is not closed; end it with "`},
		"Empty":             {template.Text, "{{ }}", "line 1, column 4: an action must not be empty; it knows run.id, "},
		"UnknownName":       {template.Text, "{{run.foo}}", `line 1, column 3: "run.foo" is not known here; there are run.id, run.attempt`},
		"Environment":       {template.Text, "{{env.PATH}}", `"env" is not known here`},
		"GoTemplate":        {template.Text, `{{range .}}{{end}}`, `line 1, column 3: "range" is not known here; there are run.id`},
		"Dot":               {template.Text, "{{.Run}}", `"." does not belong here; write a name, a string or a secret`},
		"Variable":          {template.Text, "{{$x}}", `the character "$" does not belong here`},
		"Call":              {template.Text, "{{run.id()}}", `the character "(" does not belong here`},
		"UnknownFilter":     {template.Text, "{{run.id | sha1}}", `line 1, column 12: there is no filter "sha1"; there are base64, date, default, json, lower, unix, unixMilli, upper, urlquery`},
		"NoFilter":          {template.Text, "{{run.id | }}", "write the name of a filter"},
		"Arguments":         {template.Text, `{{run.id | upper "x"}}`, "upper takes no arguments"},
		"DefaultOfNothing":  {template.Text, `{{run.id | default}}`, "default takes one argument"},
		"DefaultOfAName":    {template.Text, `{{last.status | default none}}`, `default takes a string in quotes or a whole number, not "none"`},
		"NoInstant":         {template.Text, `{{run.id | unix}}`, "unix needs an instant: run.scheduledFor or last.finishedAt"},
		"DateOfText":        {template.Text, `{{run.id | date "%F"}}`, "date needs an instant"},
		"DateOfNothing":     {template.Text, `{{run.scheduledFor | date}}`, "date takes a layout"},
		"DateUnknown":       {template.Text, `{{run.scheduledFor | date "%Q"}}`, `date knows no such piece of a layout as "%Q"; there are %Y`},
		"Zone":              {template.Text, `{{run.scheduledFor | date "%F" "Mars/Base"}}`, `date knows no zone "Mars/Base"`},
		"ZoneOfTheMachine":  {template.Text, `{{run.scheduledFor | date "%F" "localtime"}}`, `date knows no zone "localtime"`},
		"ZoneWithLeaps":     {template.Text, `{{run.scheduledFor | date "%F" "right/UTC"}}`, `date knows no zone "right/UTC"`},
		"LocalZone":         {template.Text, `{{run.scheduledFor | date "%F" "Local"}}`, `date knows no zone "Local"`},
		"SecretWithoutName": {template.Text, "{{secret}}", "write the name of the secret in quotes"},
		"SecretUnquoted":    {template.Text, "{{secret token}}", `"token" does not belong here; write the name of the secret in quotes`},
		"SecretEmpty":       {template.Text, `{{secret ""}}`, "write the name of the secret in quotes"},
		"NoLabel":           {template.Text, "{{endpoint.labels.none}}", `the endpoint has no label "none"; add it, or give a default`},
		"DefaultTooLate":    {template.Text, `{{endpoint.labels.none | upper | default "x"}}`, `the endpoint has no label "none"`},
		"Labels":            {template.Text, "{{endpoint.labels}}", `"endpoint.labels" is not known here`},
		"Index":             {template.Text, "{{endpoint.labels[team]}}", "write a name in quotes"},
		"IndexUnclosed":     {template.Text, `{{endpoint.labels["team"}}`, "write a ]"},
		"Backslash":         {template.JSON, `{"a":"{{secret \"x\"}}"}`, "write strings in single quotes: {{secret 'name'}}"},
		"TwoValues":         {template.Text, "{{run.id run.attempt}}", `"run" does not belong here; write a filter after |, or }}`},
		"ManyFilters":       {template.Text, "{{run.id" + strings.Repeat("|base64", 9) + "}}", "at most 8 filters"},
		"ManyActions":       {template.Text, strings.Repeat("{{run.id}}", 1001), "at most 1000 actions"},
		"Scheme":            {template.URL, "{{endpoint.key}}://a.example/", "scheme, host and port must be literal"},
		"Host":              {template.URL, "https://{{endpoint.key}}.example/", "line 1, column 9: scheme, host and port must be literal"},
		"HostEnd":           {template.URL, "https://a.example{{endpoint.key}}/", "scheme, host and port must be literal"},
		"Port":              {template.URL, "https://a.example:{{run.attempt}}/", "scheme, host and port must be literal"},
		"Userinfo":          {template.URL, "https://{{endpoint.key}}@a.example/", "scheme, host and port must be literal"},
		"Fragment":          {template.URL, "https://a.example/#{{endpoint.key}}", "the fragment of a URL is never sent"},
		"SecretInPath":      {template.URL, `https://a.example/{{secret "x"}}`, "a secret must not stand in the path of a URL"},
		"Dots":              {template.URL, "https://a.example/../{{endpoint.key}}", "must not hold the parts . and .."},
		"NoJSON":            {template.JSON, `{"a":"{{run.id}}"`, "the text must be JSON"},
		"JSONTouching":      {template.JSON, `[1{{run.attempt}}]`, "outside a string must be a whole value"},
		"JSONNegative":      {template.JSON, `[-{{run.attempt}}]`, "outside a string must be a whole value"},
		"JSONBehind":        {template.JSON, `[{{run.attempt}}0]`, "outside a string must be a whole value"},
		"JSONNeighbours":    {template.JSON, `[{{run.attempt}} {{run.attempt}}]`, "outside a string must be a whole value"},
		"JSONKey":           {template.JSON, `{ {{run.id}} : 1}`, "outside a string must be a whole value"},
		"JSONEscape":        {template.JSON, `"\{{run.id}}"`, "must not stand behind a backslash"},
		"JSONHexEscape":     {template.JSON, `"\u00{{run.attempt}}"`, "must not stand behind a backslash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parsed, faults := template.Parse(tc.text, template.Options{Field: tc.field, Labels: labels()})
			require.Nil(t, parsed)
			require.NotEmpty(t, faults)
			require.Contains(t, faults[0].Error(), tc.want)
		})
	}
}

func TestEveryFaultOfATextIsNamed(t *testing.T) {
	t.Parallel()
	_, faults := template.Parse("{{a}} {{run.id}}\n{{run.id | b}} {{endpoint.labels.c}}{{'x}}", template.Options{})
	var places []string
	for _, f := range faults {
		place, _, _ := strings.Cut(f.Error(), ":")
		places = append(places, place)
	}
	require.Equal(t, []string{"line 1, column 3", "line 2, column 12", "line 2, column 16", "line 2, column 39"}, places)
}

func TestATextWithoutActionsIsNoTemplate(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "plain", `{"a":{"b":1}}`, "a } } { {"} {
		parsed, faults := template.Parse(text, template.Options{Field: template.JSON})
		require.Nil(t, parsed)
		require.Empty(t, faults)
		require.False(t, template.Is(text))
	}
}

// TestUnsafeValuesAreRefused: a value that would leave its field ends the rendering, and the
// error shows nothing of it.
func TestUnsafeValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		field      template.Field
		text, want string
	}{
		"LineBreak":   {template.Header, `{{secret "breaking"}}`, "holds a line break or a control character"},
		"Binary":      {template.JSON, `{{secret "binary"}}`, "is no text in UTF-8"},
		"Missing":     {template.Text, `x {{secret "none"}}`, "line 1, column 3: there is no such secret"},
		"Climbing":    {template.URL, `https://a.example/x/{{endpoint.labels.up}}/y`, "a value makes a part of the path . or .."},
		"HalfADot":    {template.URL, `https://a.example/.{{"."}}`, "a value makes a part of the path . or .."},
		"EncodedDots": {template.URL, `https://a.example/%2E{{"."}}/y`, "a value makes a part of the path . or .."},
		"TooLong":     {template.Text, `{{"` + strings.Repeat("x", 99) + `"}}{{run.id}}`, "makes the text longer than 100 bytes"},
		"LongLiteral": {template.Text, `{{run.id}}` + strings.Repeat("x", 99), "longer than 100 bytes"},
		"LongValue":   {template.Text, `{{"` + strings.Repeat("x", 60<<10) + `" | base64}}`, "is longer than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, tc.text, tc.field).Render(values(), 100)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "X-Admin")
		})
	}
	_, err := parse(t, `{{secret "none"}}`, template.Text).Render(values(), 100)
	require.ErrorIs(t, err, errNoSecret)
	_, err = parse(t, `{{secret "none"}}`, template.Text).Render(&template.Values{}, 100)
	require.ErrorContains(t, err, `secret "none" is not there: no secrets are known here`)
}

func TestTemplateReportsItsReferences(t *testing.T) {
	t.Parallel()
	parsed := parse(t, `{{secret "b"}}{{run.id}}{{secret "a"}}{{secret "b" | base64}}`, template.Text)
	require.Equal(t, []string{"a", "b"}, parsed.Secrets())
	require.False(t, parsed.UsesLast())
	require.Empty(t, parsed.Sole())
	require.True(t, parse(t, "{{run.id}}{{last.status}}", template.Text).UsesLast())
	require.Equal(t, "a", parse(t, `{{ secret 'a' }}`, template.Text).Sole())
	require.Empty(t, parse(t, `{{secret 'a'}}x`, template.Text).Sole())
	require.Empty(t, parse(t, `{{secret 'a' | upper}}`, template.Text).Sole())
}

// TestFilteredSecretsAreReported, so that it can be hidden like the secrets themselves.
func TestFilteredSecretsAreReported(t *testing.T) {
	t.Parallel()
	v := values()
	for _, text := range []string{
		`{{run.id | upper}} {{secret "token"}}`, `{{secret "token" | upper}}`, `{{secret "token" | base64 | base64}} {{secret "token" | urlquery}}`,
	} {
		_, err := parse(t, text, template.Text).Render(v, 1000)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"S3CR&T", "Y3pOamNpWjA=", "s3cr%26t"}, v.Made())
}
