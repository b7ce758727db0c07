// Package openai is the advisor that asks a language model, over any service that speaks OpenAI's chat completions with tools.
//
// The model is taken for an adversary: what it reads comes from targets, and whoever writes there writes to it. So it is shown data as
// data (quoted, without control characters, redacted, cut), it can do nothing but call tools that the planner bound to one endpoint
// before it was asked, each call is read strictly or not at all, and nothing counts before it has submitted its analysis. What it
// proposes goes through the same rails as everybody's hints. What remains for an attacker is to choose a tempo inside the clamps,
// for a time.
//
// The service is taken for a stranger: its answers are read up to a limit, its errors are named by status alone since their text may
// repeat the key, it is left alone for as long as it asks, and after three failures for half a minute.
package openai
