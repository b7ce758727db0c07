// Package heuristic is the advisor that needs no model: it decides by a few rules, the same way every time, and says which.
package heuristic
