// Package launch reads the launch credentials of one run: the JSON bundle launch_authentication (contract 13.2).
//
// # Invariants
//
//   - A [Bundle] comes only from [Parse], and Parse accepts only what the strict readers of the stock binaries accept too:
//     every field present once, under its exact name, of its exact type and in its range, and nothing else. What is accepted
//     here and refused there would be a sandbox that is built and never starts.
//   - Parse is stricter than they are where that costs no gateway anything and takes away a second reading of the same bytes.
//     No string and no name may hold an escape (nothing that is accepted needs one), so two spellings of one name cannot
//     stand side by side. The session id is the canonical lower-case form of a UUID that is not nil, which is what the stock
//     reader demands too: the id becomes a DNS name, an annotation and a compared string. A token has three parts in the
//     base64url alphabet. A public key is one PEM block with an Ed25519 key.
//   - The object that holds the two tokens is kept as one secret value, and they are copied into nothing else that outlives
//     Parse. An [Error] names the field and the problem and never a value.
//   - The member supervisor is kept byte for byte, because it becomes the file auth.json as it is.
//
// Parse is pure and reads no clock. Whether a token is still good and signed is for those to whom it is presented. The gateway id is the one in the tokens' issuer; that it is the
// one of the settings is not said by the contract and not checked.
//
// A bundle that is refused means FAILED_PRECONDITION, before the cluster is touched (contract 2.6, 7.2 step 22, 7.11 step 3).
//
// Callers: the handlers of Provision and Restart; package material makes the files of a generation from a bundle.
package launch
