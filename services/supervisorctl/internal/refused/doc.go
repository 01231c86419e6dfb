// Package refused says what of the cluster's refusal of an object may be told to whoever asked for a run.
//
// The API server refuses in words of its own and of others: of quotas, limit ranges, Pod security, security context constraints, webhooks and
// policies. These quote what they refuse, and a webhook says whatever it likes, so the words themselves are for the log, the Sandbox and its
// Events (contract 2.6 gives a user nothing but the text of a refusal). What a user needs in order to mend it is a few names and numbers.
//
// # Invariants
//
//   - Nothing is repeated that is not the name of a known cause, a name with the form that Kubernetes demands of it, a quantity, or the path of
//     a field. What has no known form is not told.
//   - A webhook's or a policy's own words are never taken for the API server's, whatever they look like.
//   - The result is one line of at most 208 bytes, so that with what stands before it a refusal keeps to the mesh's 256.
//
// The package is pure. Caller: package service, of what supervisorctl or the Agent Sandbox controller was answered.
package refused
