package request

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/change"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/redact"
	"rubato/internal/runs"
	"rubato/internal/success"
	"rubato/internal/template"
)

// Target is the parsed configuration of an endpoint at one version. Many runs share it
// concurrently, so it must not be changed.
type Target struct {
	TenantID [16]byte
	Spec     *endpoints.Spec
	// Deadline is the deadline of a one-off run, after which nothing is sent; zero: none.
	Deadline time.Time
	// Force is set for a one-off run that is sent even if the breaker of its host is open.
	Force bool
	// SentKey is the Idempotency-Key of a one-off run that repeats another one under its key;
	// empty: that of the run itself.
	SentKey string
	// DueFor is the due time that the template uses for a run that repeats another one; zero: that
	// of the run itself.
	DueFor time.Time
	// URL includes the configured query parameters.
	URL string
	// Host is the host and port of URL, the key of the limit of requests in flight. It is empty if
	// a template provides the host, or if the endpoint starts a chain.
	Host string
	// Header is the configured header; nil if it is empty.
	Header http.Header
	// Template is the template of the request; nil: every run sends the same request.
	Template *endpoints.RequestTemplate
	Success  endpoints.SuccessRule
	// Rules are the success rules beside Success; nil: none.
	Rules *success.Set
	// Redact holds the endpoint's redaction rules; nil: only the built-in ones apply.
	Redact *redact.Set
	// Form is the part of the answers that is compared.
	Form change.Form
	// Noise is the state of the search for noise; nil: there is no search.
	Noise *Noise
	// Validators holds the validators of a conditional request; nil: the requests are not
	// conditional. Its validators are empty until an answer has brought some.
	Validators *runs.Validators
	// Secrets are the names of the secrets that the requests use.
	Secrets []string
	// Credentials are the configured header values that look like secrets, and their parts. They
	// are hidden in answers, because a target may echo them.
	Credentials []string
	// callbackKey keys the tokens of callbacks; nil: the runs are not asynchronous.
	callbackKey []byte
}

// CallbackKey returns the key of the tokens of callbacks; nil: the runs are not asynchronous.
func (t *Target) CallbackKey() []byte { return t.callbackKey }

// NeedsSecrets reports whether a run needs the secrets or the signing keys of its tenant.
func (t *Target) NeedsSecrets() bool { return len(t.Secrets) > 0 || t.Spec.Sign }

// NewTarget parses the configuration of an endpoint, which must not change afterwards. It returns
// an error if the stored configuration is invalid for this release. Such a target must not be
// called.
func NewTarget(tenant [16]byte, spec *endpoints.Spec) (Target, error) {
	t := Target{
		TenantID: tenant,
		Spec:     spec,
		URL:      spec.Target(),
		Host:     hostOf(spec.URL),
	}
	if len(spec.Headers) > 0 {
		t.Header = make(http.Header, len(spec.Headers))
	}
	for name, value := range spec.Headers {
		t.Header.Set(name, value)
		// The run knows the values of its templates.
		if auditlog.Secret(name) && !template.Is(value) {
			t.Credentials = append(t.Credentials, credentials(name, value)...)
		}
	}
	// A template that cannot be parsed is no error here: it fails at Render, so that the run
	// records it.
	if t.Template, _ = endpoints.ParseRequest(spec); t.Template != nil {
		t.Secrets = t.Template.Secrets()
	}
	if spec.AsksConditionally() {
		t.Validators = &runs.Validators{Request: spec.RequestDigest()}
	}
	var fault error
	t.Success, fault = endpoints.ParseSuccess(spec.Success)
	var bad, paths []errs.Field
	t.Rules, t.Redact, bad = spec.ParseAnswers()
	t.Form, paths = spec.ParseForm()
	return t, unusable(fault, slices.Concat(bad, paths))
}

// SetKey sets the secret of the endpoint. It keys the digests of answers if there are redaction
// rules: without them the answers are stored whole, and a digest tells nothing more. It also keys
// the tokens of callbacks.
func (t *Target) SetKey(secret []byte) {
	if t.Redact != nil {
		t.Form = t.Form.Keyed(secret)
	}
	if t.Spec.Async.Timeout > 0 {
		t.callbackKey = secret
	}
}

// minCredential is the minimum length of a credential that is hidden in answers, as in
// [secrets.NewMask].
const minCredential = 8 // bytes

// credentials returns the value of a header that looks like a secret, and the credentials in it:
// the value without the scheme of Authorization, or the values of cookies. Targets echo either.
func credentials(name, value string) []string {
	list := []string{value}
	if _, token, scheme := strings.Cut(value, " "); scheme {
		list = append(list, strings.TrimSpace(token))
	}
	if strings.EqualFold(name, "Cookie") {
		for pair := range strings.SplitSeq(value, ";") {
			_, cookie, _ := strings.Cut(pair, "=")
			list = append(list, strings.Trim(strings.TrimSpace(cookie), `"`))
		}
	}
	list = slices.DeleteFunc(list, func(text string) bool { return len(text) < minCredential })
	slices.Sort(list)
	return slices.Compact(list)
}

// unusable returns the faults of a stored configuration as one error on one line, or nil.
func unusable(fault error, bad []errs.Field) error {
	var faults []string
	if fault != nil {
		faults = append(faults, fault.Error())
	}
	for _, f := range bad {
		faults = append(faults, f.Field+" "+f.Message)
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// hostOf returns the host and port of an endpoint's URL. It returns an empty string if a template
// provides them, or if the endpoint starts a chain.
func hostOf(target string) string {
	if u, err := url.Parse(target); err != nil || u.Host == "" || strings.Contains(u.Host, "{{") {
		return ""
	}
	return egress.Server(target)
}
