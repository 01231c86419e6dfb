// Package acceptance placeholder.
package acceptance
