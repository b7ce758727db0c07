package egress

// Denial is the rule by which a call was refused. It is for the operator, in metrics; who asked for the call is told less.
type Denial string

// The denials.
const (
	DeniedAddress  Denial = "address"  // not public, and on no allow-list
	DeniedMetadata Denial = "metadata" // an address that hands out credentials of its machine
	DeniedOwn      Denial = "own"      // a listener of Rubato itself, or its database
	DeniedPort     Denial = "port"
	DeniedURL      Denial = "url" // its form, scheme or user name
	DeniedHeader   Denial = "header"
	DeniedMethod   Denial = "method"
	DeniedTLS      Denial = "tls"      // a session that the operator does not permit
	DeniedRedirect Denial = "redirect" // a redirect to where no call may go
)

func denials() []Denial {
	return []Denial{
		DeniedAddress, DeniedMetadata, DeniedOwn, DeniedPort, DeniedURL, DeniedHeader, DeniedMethod, DeniedTLS, DeniedRedirect,
	}
}

// denial returns the rule that v tells of.
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
