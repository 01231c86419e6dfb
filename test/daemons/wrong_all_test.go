//go:build portcullis_long

package daemons_test

// wide has every case run.
const wide = true
