// Package allowlist tests the allowlist on real parts: nswatch as a process with the rights that it is shipped with,
// a real API server, real NATS servers, and readers as tokenauth and lifecycle run them.
//
// Each test says what an operator, a machine or a network does, and what readers must then answer. What must be
// refused is waited for by its reason; nothing depends on how fast it comes.
package allowlist
