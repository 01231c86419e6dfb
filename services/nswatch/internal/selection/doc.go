// Package selection takes out of what a source gives the namespaces that are never published (rule W7), and tells
// people about each of them once.
//
// Invariants:
//
//   - What is published is what [allowlist.Select] leaves; this package adds the memory, the metrics and the log to it
//     and decides nothing.
//   - A refusal is logged and counted when it appears, and again only after it was gone in between. Memory and log
//     lines have limits, however many namespaces are refused.
//
// Callers: filesource, and the label source, each with a Selection of its own.
package selection
