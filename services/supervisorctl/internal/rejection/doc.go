// Package rejection tells whether the cluster does not admit an object, and what of its words may be told to whoever asked for a run.
//
// The API server refuses in words of its own and of others: of quotas, limit ranges, Pod security, security context constraints, webhooks and
// policies. These quote what they refuse, and a webhook says whatever it likes, so the words themselves are for the log, the Sandbox and its
// Events (contract 2.6 gives a user nothing but the text of a refusal). What a user needs in order to mend it is a few names and numbers.
//
// # Invariants
//
//   - Nothing is repeated that is not the name of a known cause, a name with the form that Kubernetes demands of it, a quantity, or the path of
//     a field. What has no known form is not told.
//   - A webhook's, a backend's or a policy's own words are never taken for the API server's, whatever they look like: these stand where the API
//     server puts a cause, at the beginning of one.
//   - Of a text that was cut, nothing is told that may be half of a word or of a number.
//   - The result is one line of at most 208 bytes, so that with what stands before it a refusal keeps to the mesh's 256.
//
// The package is pure. Callers: package conduct, of what the Agent Sandbox controller says, and package service, of what supervisorctl or the
// controller was answered.
package rejection
