// Package bench runs the commands of `rubato bench` small, so that they keep working: it looks at what they report, never at how fast
// anything was. RUBATO_BENCH=long also runs the longest of them. The folder river beside it is the program of the peer.
package bench
