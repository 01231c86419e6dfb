// Package bootstrap reads the three files of a sandbox's bootstrap Secrets: boundary.json,
// runtime-descriptor.json and auth.json (contract 13.2 to 13.4).
//
// Invariant: what Read* returns has exactly the contract's fields, each valid in itself, and fence
// evidence that fits the claims. It is written against the contract, not against the writer in
// supervisorctl, and so checks that writer.
//
// One thing is as the stock runtime and driver have it, and not as contract 13.3 says: resource_claims
// of boundary.json states all six claims, and resource_claim_files names a file in which one of them is
// to be found again.
//
// Callers: the stand-in runtime (boundary.json), the stand-in supervisor (the other two), and
// materialtest, which makes them.
package bootstrap
