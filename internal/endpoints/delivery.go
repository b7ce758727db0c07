package endpoints

import "rubato/internal/success"

// AuthType is the authentication scheme of the requests to a target.
type AuthType string

// The schemes: RFC 7617, RFC 6750, a header of the target's own, and the client credentials grant
// of RFC 6749 section 4.4.
const (
	AuthBasic  AuthType = "basic"
	AuthBearer AuthType = "bearer"
	AuthAPIKey AuthType = "apiKey"
	AuthOAuth2 AuthType = "oauth2"
)

// Auth holds the credentials of requests. The validator checks which fields a type requires and
// forbids. Secret fields hold a reference to a secret, never its value.
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

// TLS configures the TLS sessions of a target: trusted CAs and the client certificate. Certificates
// and keys are PEM.
type TLS struct {
	// CACertificates replaces the system's trusted CAs.
	CACertificates    string `json:"caCertificates,omitzero" zero:"refused"`
	ClientCertificate string `json:"clientCertificate,omitzero" zero:"refused"`
	// ClientKey is a reference to a secret.
	ClientKey  string `json:"clientKey,omitzero" zero:"refused"`
	ServerName string `json:"serverName,omitzero" zero:"refused"`
	// MinVersion is "1.2" or "1.3".
	MinVersion string `json:"minVersion,omitzero"`
	// SkipVerify is refused unless the operator permits it.
	SkipVerify bool `json:"skipVerify,omitzero"`
}

// AnswerRule is one condition that an answer must meet to count as success. The validator checks
// which fields a type uses.
type AnswerRule struct {
	Type         success.Type `json:"type"`
	Header       string       `json:"header,omitzero" zero:"refused"`     // header: its name
	JSONPath     string       `json:"jsonPath,omitzero" zero:"refused"`   // json: RFC 9535
	Op           success.Op   `json:"op,omitzero"`                        // header, body, json
	Value        any          `json:"value,omitempty"`                    // header, body, json: string, number, boolean or nil
	Expression   string       `json:"expression,omitzero" zero:"refused"` // cel
	MaxLatencyMs int64        `json:"maxLatencyMs,omitzero"`              // latency
}

// RedactRule hides a part of an answer before it is stored. Exactly one of Header, JSONPath and
// Pattern is set.
type RedactRule struct {
	Header   string `json:"header,omitzero" zero:"refused"`
	JSONPath string `json:"jsonPath,omitzero" zero:"refused"`
	// Pattern is an RE2 expression.
	Pattern string `json:"pattern,omitzero" zero:"refused"`
	// Replacement replaces each match of Pattern; empty: ***.
	Replacement string `json:"replacement,omitzero"`
}

// Authority is what the planner may do with the tempo of an endpoint.
type Authority string

// The authorities, in ascending order.
const (
	// PlannerOff: the planner ignores the endpoint.
	PlannerOff Authority = "off"
	// PlannerObserve: the planner records the changes that it would make.
	PlannerObserve Authority = "observe"
	// PlannerSuggest: each proposal waits for the approval of a person.
	PlannerSuggest Authority = "suggest"
	// PlannerAct: proposals take effect at once, within the clamps.
	PlannerAct Authority = "act"
)
