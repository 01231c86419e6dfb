// Package sandboxv1 is the sandbox policy (contract 1.9), for whoever makes one. No daemon reads it:
// it passes through the driver as bytes.
//
// Everything but this file is generated from sandbox.proto.
package sandboxv1
