// Package secret keeps credentials, tokens and key bytes out of every
// formatter.
//
// Invariant: bytes held by a [Value], and protobuf fields that carry the option
// openshell.options.v1.secret (contract 1.7), leave this package only through
// [Value.Expose]. fmt with any verb, encoding/json, encoding/xml, encoding/gob,
// TOML and YAML encoders, log/slog and zerolog all print [Marker] instead, also
// when the value sits in an unexported field, where fmt cannot call methods.
//
// Of what the contract does not mark, the environment and the command of a sandbox are
// not shown either.
//
// Value is for secrets that a daemon holds: keys, bearer tokens, seeds, bootstrap
// material. [Redacted] is for messages that pass through: it renders a protobuf
// message for a log line with the secret fields replaced, in bounded size.
//
// Callers: shared/allowlist and shared/natsconn hold their keys and seeds in Values,
// shared/daemon renders requests for its call log. A settings struct may hold a Value,
// which decodes from TOML text; today's settings name files instead.
//
// Limits. Go may copy or move memory, and the runtime, the TLS stack and the
// kernel keep copies of their own; the package prevents accidental disclosure by
// formatting, it is no defence against a process that reads our memory.
package secret
