// Package handbook holds the tables of a document to the program that it describes.
//
// A table stands between two marks of the document, <!-- name --> and <!-- end of name -->. Its rows and all of its columns but the
// last are the program's; the last is written by a person, once for each row, and stays when the table is written anew. So a
// setting, a reason, a metric or a right that nobody has explained fails the daemon's test, and so does one that there is no more.
//
// Test code: whatever cannot be done fails the test.
//
// Callers: the tests of internal/app of the daemons, and test/manual.
package handbook
