// Package pemfile reads the files that settings name: certificates, keys, tokens and credentials.
//
// Invariants:
//
//   - A read ends and is bounded, whatever the path leads to. Pipes, devices, sockets and directories are refused
//     without reading them, and no more than a limit is ever held.
//   - A bundle is taken whole or not at all. The standard library skips certificates that are cut off or mangled, which
//     would silently shorten a chain or a list of authorities and fail later and elsewhere.
//   - An error is one line that names the settings key, the path and the cause, and holds nothing of a key, token or
//     seed.
//
// Files are read where they are used; following their changes is the caller's part.
//
// Callers: natsconn and its embedded server, kubeclient, meshrpc, telemetry.
package pemfile
