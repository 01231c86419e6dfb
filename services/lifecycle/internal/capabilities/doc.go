// Package capabilities is the driver's half of the handshake (contract 2.3, 2.4): what it says of itself, and what it wants of
// the gateway that asks.
//
// # Invariants
//
//   - The answer is made once, from the settings, and is the same for every call: the gateway compares a part of it byte for
//     byte before each launch.
//   - Metadata are judged by one set of rules, ours as well as the gateway's. An absent or malformed list is never an empty one.
//   - Only a gateway that is told to be an old one may say nothing about itself.
//
// The package is pure. Caller: the driver's GetCapabilities.
package capabilities
