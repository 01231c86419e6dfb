// Package sandboxv1 is the sandbox policy as it passes through a driver (contract 1.9). No daemon
// reads it. It decodes whatever the gateway's release is, and fields whose type has changed between
// releases are kept as they came.
//
// Everything but this file is generated from sandbox.proto.
package sandboxv1
