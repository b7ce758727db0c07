package store

import (
	"encoding/json"

	"rubato/internal/endpoints"
)

// delivery is the document that holds what most endpoints do not use. A member that is absent has its zero value.
type delivery struct {
	Query          map[string]string      `json:"query,omitempty"`
	Auth           *endpoints.Auth        `json:"auth,omitempty"`
	TLS            *endpoints.TLS         `json:"tls,omitempty"`
	Sign           bool                   `json:"sign,omitempty"`
	SuccessRules   []endpoints.AnswerRule `json:"successRules,omitempty"`
	ResponseTailKB int                    `json:"responseTailKb,omitempty"`
	Redact         []endpoints.RedactRule `json:"redact,omitempty"`
	Conditional    bool                   `json:"conditional,omitempty"`
}

// deliveryOf encodes the delivery of a spec, which cannot fail: what the contract can bind is JSON.
func deliveryOf(s endpoints.Spec) json.RawMessage {
	raw, err := json.Marshal(delivery{
		Query: s.Query, Auth: s.Auth, TLS: s.TLS, Sign: s.Sign, SuccessRules: s.SuccessRules, ResponseTailKB: s.ResponseTailKB,
		Redact: s.Redact, Conditional: s.Conditional,
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// readDelivery is the inverse of deliveryOf.
func readDelivery(raw json.RawMessage, s *endpoints.Spec) error {
	if emptyObject(raw) {
		return nil
	}
	var d delivery
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	s.Query, s.Auth, s.TLS, s.Sign = d.Query, d.Auth, d.TLS, d.Sign
	s.SuccessRules, s.ResponseTailKB, s.Redact, s.Conditional = d.SuccessRules, d.ResponseTailKB, d.Redact, d.Conditional
	return nil
}
