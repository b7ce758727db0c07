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
	Type         AuthType `json:"type"`
	Username     string   `json:"username,omitzero" zero:"refused"`     // basic
	Password     string   `json:"password,omitzero" zero:"refused"`     // basic; a reference
	Token        string   `json:"token,omitzero" zero:"refused"`        // bearer; a reference
	Header       string   `json:"header,omitzero" zero:"refused"`       // apiKey: the name of the header
	Value        string   `json:"value,omitzero" zero:"refused"`        // apiKey; a reference
	TokenURL     string   `json:"tokenUrl,omitzero" zero:"refused"`     // oauth2
	ClientID     string   `json:"clientId,omitzero" zero:"refused"`     // oauth2
	ClientSecret string   `json:"clientSecret,omitzero" zero:"refused"` // oauth2; a reference
	Scopes       []string `json:"scopes,omitempty"`                     // oauth2
	Audience     string   `json:"audience,omitzero" zero:"refused"`     // oauth2
}

// TLS says whom calls over https trust, and as whom they come. Certificates and keys are PEM.
type TLS struct {
	CACertificates    string `json:"caCertificates,omitzero" zero:"refused"` // trusted instead of the system's
	ClientCertificate string `json:"clientCertificate,omitzero" zero:"refused"`
	ClientKey         string `json:"clientKey,omitzero" zero:"refused"` // a reference to a secret
	ServerName        string `json:"serverName,omitzero" zero:"refused"`
	MinVersion        string `json:"minVersion,omitzero"` // "1.2" or "1.3"
	SkipVerify        bool   `json:"skipVerify,omitzero"` // only where the operator allows it
}

// AnswerRule is one thing that an answer must satisfy to count as success. Which fields a type uses is checked with the spec.
type AnswerRule struct {
	Type         success.Type `json:"type"`
	Header       string       `json:"header,omitzero" zero:"refused"`     // header: its name
	JSONPath     string       `json:"jsonPath,omitzero" zero:"refused"`   // json: RFC 9535
	Op           success.Op   `json:"op,omitzero"`                        // header, body, json
	Value        any          `json:"value,omitempty"`                    // header, body, json: what to compare with: a string, number or boolean, or nil
	Expression   string       `json:"expression,omitzero" zero:"refused"` // cel
	MaxLatencyMs int64        `json:"maxLatencyMs,omitzero"`              // latency
}

// RedactRule hides a part of an answer before it is stored: exactly one of a header, a place in a JSON body, and whatever a pattern
// finds.
type RedactRule struct {
	Header      string `json:"header,omitzero" zero:"refused"`
	JSONPath    string `json:"jsonPath,omitzero" zero:"refused"`
	Pattern     string `json:"pattern,omitzero" zero:"refused"` // RE2
	Replacement string `json:"replacement,omitzero"`            // of what the pattern finds; empty: ***
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
