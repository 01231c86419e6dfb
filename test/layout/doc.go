// Package layout holds the test that keeps the repository's shape: which module may import which,
// that every package says what it is for, and that files stay small. It reads every Go file of the
// repository, whatever its build tags, and every document (*.md).
package layout
