// Package telemetry holds what makes the log lines, metrics and traces of all
// daemons look alike: key names, the logger, the metric registry, build
// information and the tracing set-up.
//
// Invariant: one meaning has one name. A log key that more than one package
// writes is a constant of this package, one that a single package writes is a
// constant here or there; every metric begins with [Namespace], and nothing here touches
// process-wide state: no default Prometheus registry, no zerolog or OpenTelemetry
// globals. What a daemon wants observed it passes on by constructor argument.
//
// Nothing of the environment is read here; what the OpenTelemetry libraries print of it
// [OTelLog] withholds.
//
// Callers: the wiring of each daemon makes one [NewLogger], one [NewRegistry] and
// one [NewTracing] and hands the results to components; components use the keys
// and [Namespace].
package telemetry
