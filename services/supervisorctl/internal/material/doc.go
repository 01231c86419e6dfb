// Package material makes what goes into the two bootstrap Secrets of one generation: the configuration of the boundary and
// of the supervisor, the certificates and keys (contract 7.7, 7.8, 13.3, 13.4). The stock binaries refuse a file with one
// field too many, too few or of another name, so names and values here are the contract's to the letter.
//
// # Invariants
//
//   - Every value that both sides compare (generation, session, identity, claims, fence) comes from one [Facts] and is made
//     once. Facts are checked as a whole before any key is made; one that is missing is never left out of the output but
//     refused.
//   - The key of the session CA lives inside the function that signs the leaf. It is wiped there and is in no output.
//   - Nothing is shared between two calls: each has its own three keys and serial numbers.
//   - The output is a function of the facts and of the bytes of randomness. Keys are made from those bytes here and not by
//     the library, which by now ignores a reader for some kinds of keys; signatures need none.
//   - Keys, tokens and the environment of the workload are in secret values, and buffers that held them are cleared. Copies
//     inside of encoding/json and the libraries of keys cannot be reached.
//
// # Form of the JSON
//
// Files are compact JSON without a line end, in the order of the contract's tables; names of maps are sorted. The writer
// escapes what JSON demands and not <, > and &, which the stock writer leaves alone too. It writes U+2028 and U+2029 as
// escapes where the stock writer does not: the same to a reader, and neither can occur in the evidence, whose bytes are hashed.
//
// # Claims
//
// Both files state all six claims of contract 13.4. boundary.json names the file of the workload Pod's uid besides, under
// resource_claim_files: the stock runtime refuses a name there that no claim has, and compares what the downward API put into the
// file with what is claimed. So a replaced Pod cannot match (contract 13.3, which has the claim in one place only; the stock
// driver writes it in both).
//
// # Keys
//
// Session CA and leaf are Ed25519 (contract 7.8). The proxy CA signs for whatever client runs in the sandbox, and many do not
// know Ed25519, so it is ECDSA on P-256, as the stock driver's is. All three certificates are valid from 1975 to 4096: their
// life is that of the generation, and the clock of a node must not end it.
//
// The package is pure. The caller is the executor of Provision and Restart; what it says of the fence and the claims is also
// what Status reports.
package material
