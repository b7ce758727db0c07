package egress

// Denial is the rule that refused a call. It is a metric label for the operator. The caller gets a
// less specific error, because a precise one would help to probe the network.
type Denial string

// Values of [Denial].
const (
	DeniedAddress  Denial = "address"  // not public, and not on an allow list
	DeniedMetadata Denial = "metadata" // cloud metadata service, which hands out credentials
	DeniedOwn      Denial = "own"      // a listener of Rubato itself, or its database
	DeniedPort     Denial = "port"
	DeniedURL      Denial = "url" // form, scheme or user name
	DeniedHeader   Denial = "header"
	DeniedMethod   Denial = "method"
	DeniedTLS      Denial = "tls"      // a TLS setting that the operator does not permit
	DeniedRedirect Denial = "redirect" // a redirect to a forbidden target
)

func denials() []Denial {
	return []Denial{
		DeniedAddress, DeniedMetadata, DeniedOwn, DeniedPort, DeniedURL, DeniedHeader, DeniedMethod, DeniedTLS, DeniedRedirect,
	}
}

// denial returns the rule of v.
func (v *Violation) denial() Denial {
	switch v.Code {
	case "url_forbidden":
		return DeniedAddress
	case "url_port":
		return DeniedPort
	case "header_invalid", "header_forbidden":
		return DeniedHeader
	case "method_invalid":
		return DeniedMethod
	case "tls_forbidden":
		return DeniedTLS
	default:
		return DeniedURL
	}
}
