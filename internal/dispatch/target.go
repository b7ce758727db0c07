package dispatch

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/redact"
	"rubato/internal/runs"
	"rubato/internal/success"
	"rubato/internal/template"
)

// Target is what a run calls: the configuration of an endpoint at one version, ready for use. Many runs share it, so nothing of it
// may be changed.
type Target struct {
	TenantID [16]byte
	Spec     *endpoints.Spec
	Deadline time.Time                  // of a one-off run: nothing is sent after it; zero: no end
	URL      string                     // with the parameters of the query
	Host     string                     // the server that URL leads to, as egress counts requests; empty where only a run knows
	Header   http.Header                // as configured; nil: nothing is
	Shape    *endpoints.RequestTemplate // what a run fills in; nil: nothing, every run sends the same
	Success  endpoints.SuccessRule
	Rules    *success.Set // beside Success; nil: none
	Redact   *redact.Set  // of what is stored; nil: nothing but what always is
	// Asks is what a conditional request names; nil: the endpoint's requests are not conditional. With empty validators nothing is known yet.
	Asks    *runs.Validators
	Secrets []string // names of the secrets that its requests need
	// Credentials are the values of configured headers that look like secrets, and their parts, as an answer may repeat them.
	Credentials []string
}

// unlocks reports whether a run needs the secrets or the signing keys of its tenant.
func (t *Target) unlocks() bool { return len(t.Secrets) > 0 || t.Spec.Sign }

// NewTarget makes the configuration of an endpoint of a tenant ready for use; it must not change any more. The error tells of a
// configuration that no API call of this release could have written; the target beside it must not be called.
func NewTarget(tenant [16]byte, spec *endpoints.Spec) (Target, error) {
	t := Target{TenantID: tenant, Spec: spec, URL: spec.Target(), Host: hostOf(spec.URL)}
	if len(spec.Headers) > 0 {
		t.Header = make(http.Header, len(spec.Headers))
	}
	for name, value := range spec.Headers {
		t.Header.Set(name, value)
		if auditlog.Secret(name) && !template.Is(value) { // What fills in a template is known by the run.
			t.Credentials = append(t.Credentials, credentials(name, value)...)
		}
	}
	// Where a stored template cannot be parsed, its runs say so.
	if t.Shape, _ = endpoints.ParseRequest(spec); t.Shape != nil {
		t.Secrets = t.Shape.Secrets()
	}
	if spec.Conditional {
		t.Asks = &runs.Validators{Request: spec.RequestDigest()}
	}
	var fault error
	t.Success, fault = endpoints.ParseSuccess(spec.Success)
	var bad []errs.Field
	t.Rules, t.Redact, bad = spec.ParseAnswers()
	return t, unusable(fault, bad)
}

// minCredential is how long a credential is in bytes that is hidden in answers, as [secrets.NewMask] has it.
const minCredential = 8

// credentials returns the value of a header that looks like a secret, and what is the credential in it: without the scheme of Authorization, or
// the values of cookies. Targets repeat one or the other.
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

// unusable returns what is wrong with a stored configuration on one line, or nil.
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

// hostOf returns the server that the URL of an endpoint leads to, empty where a template stands in its place.
func hostOf(target string) string {
	if u, err := url.Parse(target); err != nil || strings.Contains(u.Host, "{{") {
		return ""
	}
	return egress.Server(target)
}
