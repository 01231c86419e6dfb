// Package exactjson reads JSON the way the companions must: nothing unknown, nothing missing, nothing twice.
//
// Invariant: Decode accepts a document only when its keys are exactly those of the Go value, at every
// depth and letter by letter. encoding/json alone takes keys in any case, takes the last of two equal
// keys and says nothing about absent ones, and each of these would hide a fault of the writer.
//
// Callers: bootstrap for the three files of contract 13.3, boundary for envelopes and their digests.
package exactjson
