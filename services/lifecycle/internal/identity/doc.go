// Package identity finds the numeric user and group of a sandbox (contract 9.4): from the settings, from what OpenShift has
// allocated to the namespace, or else the default.
//
// # Invariants
//
//   - A namespace that was not read gives no identity where its annotations would matter. The default is for namespaces that say
//     nothing, never for answers that did not come.
//   - An identity is from 1 to 2147483647. The contract allows more, and the API server takes no more; a Pod that cannot be made is
//     refused before anything else is.
//   - The zero Identity is none, and the zero Namespace was not read.
//
// The package is pure. Callers: the driver's create and validate; template renders what comes out.
package identity
