package endpoints

import "rubato/internal/success"

// AuthType names a way to prove to a target who is calling.
type AuthType string

// The ways: RFC 7617, RFC 6750, a header of the target's own, and the client credentials grant of RFC 6749 section 4.4.
const (
	AuthBasic  AuthType = "basic"
	AuthBearer AuthType = "bearer"
	AuthAPIKey AuthType = "apiKey"
	AuthOAuth2 AuthType = "oauth2"
)

// Auth says how calls prove who is calling. Which fields a type needs, and which it knows nothing of, is checked with the spec. Those
// that hold a secret hold a reference to it, never the secret.
type Auth struct {
	Type         AuthType `field:"type"`
	Username     string   `field:"username,optional"`     // basic
	Password     string   `field:"password,optional"`     // basic; a reference
	Token        string   `field:"token,optional"`        // bearer; a reference
	Header       string   `field:"header,optional"`       // apiKey: the name of the header
	Value        string   `field:"value,optional"`        // apiKey; a reference
	TokenURL     string   `field:"tokenUrl,optional"`     // oauth2
	ClientID     string   `field:"clientId,optional"`     // oauth2
	ClientSecret string   `field:"clientSecret,optional"` // oauth2; a reference
	Scopes       []string `field:"scopes"`                // oauth2
	Audience     string   `field:"audience,optional"`     // oauth2
}

// TLS says whom calls over https trust, and as whom they come. Certificates and keys are PEM.
type TLS struct {
	CACertificates    string `field:"caCertificates,optional"` // trusted instead of the system's
	ClientCertificate string `field:"clientCertificate,optional"`
	ClientKey         string `field:"clientKey,optional"` // a reference to a secret
	ServerName        string `field:"serverName,optional"`
	MinVersion        string `field:"minVersion,omitzero"` // "1.2" or "1.3"
	SkipVerify        bool   `field:"skipVerify,omitzero"` // only where the operator allows it
}

// AnswerRule is one thing that an answer must satisfy to count as success. Which fields a type uses is checked with the spec.
type AnswerRule struct {
	Type         success.Type `field:"type"`
	Header       string       `field:"header,optional"`       // header: its name
	JSONPath     string       `field:"jsonPath,optional"`     // json: RFC 9535
	Op           success.Op   `field:"op,omitzero"`           // header, body, json
	Value        any          `field:"value"`                 // header, body, json: what to compare with: a string, number or boolean, or nil
	Expression   string       `field:"expression,optional"`   // cel
	MaxLatencyMs int64        `field:"maxLatencyMs,omitzero"` // latency
}

// RedactRule hides a part of an answer before it is stored: exactly one of a header, a place in a JSON body, and whatever a pattern
// finds.
type RedactRule struct {
	Header      string `field:"header,optional"`
	JSONPath    string `field:"jsonPath,optional"`
	Pattern     string `field:"pattern,optional"`     // RE2
	Replacement string `field:"replacement,omitzero"` // of what the pattern finds; empty: ***
}

// Authority says what the planner may do with an endpoint's tempo.
type Authority string

// The authorities, each more than the one before it.
const (
	PlannerOff     Authority = "off"     // it leaves the endpoint alone
	PlannerObserve Authority = "observe" // it records what it would have done
	PlannerSuggest Authority = "suggest" // what it proposes waits for a person
	PlannerAct     Authority = "act"     // what it proposes is in force at once, inside the clamps
)
