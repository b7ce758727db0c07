package egress

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// redirects reports whether answer is a redirect.
func redirects(answer *http.Response) bool {
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return answer.Header.Get("Location") != ""
	default:
		return false
	}
}

// follow returns the hop of the redirect in answer, or an error if it is forbidden. The argument
// left is the remaining number of redirects.
func (x *exchange) follow(answer *http.Response, left int) (*hop, error) {
	if left <= 0 {
		return nil, &fault{reason: RedirectLimit, err: errLimit}
	}
	from := x.hop.url
	location, err := from.Parse(answer.Header.Get("Location"))
	if err != nil {
		return nil, &fault{
			reason: RedirectDenied,
			err:    refusal{malformedURL()},
			denial: DeniedRedirect,
		}
	}
	to, violation := x.transport.policy.parse(location.String())
	if violation != nil {
		return nil, &fault{
			reason: RedirectDenied,
			err:    refusal{violation},
			denial: DeniedRedirect,
		}
	}
	if from.Scheme == "https" && to.Scheme != "https" {
		return nil, &fault{
			reason: RedirectDenied,
			err:    errDowngrade,
			denial: DeniedRedirect,
		}
	}
	next := x.hop
	next.url = to
	if becomesGet(answer.StatusCode, x.hop.method) {
		next.method, next.body = http.MethodGet, nil
		next.header = without(next.header, func(name string) bool { return describesBody(name) || len(x.hop.body) > 0 && signsBody(name) })
	}
	if sameParty(from, to) {
		return &next, nil
	}
	next.header = without(next.header, x.credential)
	x.meta = without(x.meta, x.listed)
	return &next, x.hideCertificate()
}

// hideCertificate drops the client certificate for the rest of the exchange, because the
// certificate is only for the original host.
func (x *exchange) hideCertificate() error {
	if x.tls == nil || x.tls.ClientCertificate == "" && x.tls.ClientKey == "" {
		return nil
	}
	setting := *x.tls
	setting.ClientCertificate, setting.ClientKey = "", ""
	bare, err := x.client.special.get(setting, x.allowance)
	if err != nil {
		return err
	}
	x.tls, x.transport = &setting, bare
	return nil
}

// credential reports whether a header must be dropped on a redirect to another host.
func (x *exchange) credential(name string) bool {
	return credential(name) || x.listed(name)
}

// listed reports whether the caller names a header as a credential.
func (x *exchange) listed(name string) bool {
	return slices.ContainsFunc(x.credentials, func(known string) bool { return strings.EqualFold(known, name) })
}

// becomesGet reports whether a redirect turns the request into a GET without a body (RFC 9110).
func becomesGet(status int, method string) bool {
	switch status {
	case http.StatusSeeOther:
		return method != http.MethodHead
	case http.StatusMovedPermanently, http.StatusFound:
		return method == http.MethodPost
	default:
		return false
	}
}

// sameParty reports whether both URLs have the same host and port. An upgrade from http to https on
// the default ports counts as the same.
func sameParty(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	a, b := portOf(from), portOf(to)
	return a == b || from.Scheme == "http" && a == "80" && to.Scheme == "https" && b == "443"
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

func describesBody(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), "content-")
}

// signsBody reports whether a header signs the body, as in Standard Webhooks. Without the body, the
// signature would be wrong.
func signsBody(name string) bool { return strings.EqualFold(name, "Webhook-Signature") }

// without returns header without the names selected by drop.
func without(header http.Header, drop func(name string) bool) http.Header {
	kept := make(http.Header, len(header))
	for name, values := range header {
		if !drop(name) {
			kept[name] = values
		}
	}
	return kept
}
