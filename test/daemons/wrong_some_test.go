//go:build !portcullis_long

package daemons_test

// wide would have every case run; without it one of each kind does.
const wide = false
