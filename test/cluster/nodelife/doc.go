// Package nodelife tests that a node cluster leaves nothing on the machine, however it ends. It needs
// root and the machine's only node, so it runs by itself: `make test-node` does.
package nodelife
