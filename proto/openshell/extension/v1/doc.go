// Package extensionv1 is what gateway and driver tell each other about themselves in the handshake
// (contract 1.8 and 2.3). The rules for the values are not checked here.
//
// Everything but this file is generated from extension.proto.
package extensionv1
