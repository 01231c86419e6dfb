// Package replay keeps account of the bug corpus: public reports of neighbouring software, each replayed on ours.
//
// README.md lists every report with the test that replays it, named TestReplay and the report's id, or with the reason
// why there is nothing to replay. A test stands beside the unit that it belongs to, or here when it needs several. The
// test of this package fails when the list and the tree differ.
package replay
