// Package tempo estimates how fast the answers of an endpoint change, and derives the wait to its
// next run: a rate filter, an index law and a price of runs.
//
// The filter ([Filter]) holds a distribution over rates of change and updates it after every look.
// A look is a run whose answer could be compared with the previous one. The index law
// ([Filter.Wait]) turns the distribution and a price into the wait: a run is worth its price when
// the changes that it would find have waited for that long in sum. The price ([Pricer]) follows
// from a budget of runs: it rises while an endpoint, or the endpoints that share the budget, run
// more often than the budget allows.
//
// Everything here is a pure function of its arguments: no clock, no random source, no I/O. The
// arithmetic gives the same bits on every architecture, so that a replay of recorded looks gives
// the recorded waits.
//
// Sources: J. Cho and H. Garcia-Molina, Estimating Frequency of Change, ACM Transactions on
// Internet Technology 3(3), 2003; Y. Azar et al., Tractable near-optimal policies for crawling,
// PNAS 115(32), 2018; P. Fearnhead and Z. Liu, On-line inference for multiple changepoint problems,
// Journal of the Royal Statistical Society B 69(4), 2007.
package tempo
