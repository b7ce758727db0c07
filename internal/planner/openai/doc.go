// Package openai is the advisor that asks a language model, over any service with OpenAI's chat
// completions API and tools.
//
// The model is treated as an adversary, because it reads responses of targets and may obey
// instructions in them (prompt injection). Data is shown to it quoted, without control characters,
// redacted and truncated. It can only call tools that are bound to one endpoint, each call is
// parsed strictly, and nothing takes effect before it submits its analysis. Its proposals pass the
// same guardrails as all others. An attacker can at most choose an interval inside the clamps, for
// a limited time.
//
// The service is not trusted either. Responses are read up to a limit. Its errors are reported by
// status only, because their text may repeat the API key. Its Retry-After is obeyed, and circuit
// breakers stop requests for half a minute after three consecutive failures.
package openai
