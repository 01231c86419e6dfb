// Package acceptance holds the allowlist to the acceptance list of the NATS reference, section 10, on real NATS servers
// with the real Publisher and the real Reader: what must deny, and what must stay open.
//
// Denying is waited for by its reason, and while it lasts the questions go on. Staying open is asked every two
// milliseconds from before the event until new records have come through after it, under the bounds that the protocol
// states. Where a test would pass without the fault having happened, it says so and fails.
//
// Must deny:
//
//	writer killed                        test/allowlist TestLeaderKilled
//	writer paused past its lease         test/allowlist TestLeaderPausedPastItsLease, shared/allowkv TestPausedWriter
//	quorum lost longer than allowed      test/acceptance TestQuorumLost, test/allowlist TestNATSCluster
//	reader's node partitioned            test/acceptance TestReadersNodeIsPartitioned
//	half-open link                       test/allowlist TestReplayJ15ReaderIsCutOff, shared/allowkv TestReplayJ02LongOutageCloses
//	every message later than the last    shared/allowkv TestSteadyDelay, shared/allowlist TestLateBeatsExtendNothing
//	bucket deleted, and recreated        test/acceptance TestBucketIsDeleted, shared/allowkv TestRecreatedBucket
//	store restored, grown past its end   shared/allowkv TestReplayJ09RestoredStore, test/allowlist TestNATSRestoredFromAnOlderStore
//	rollup of everything                 test/acceptance TestRollupOfEverything, shared/allowkv TestIntruder
//	reply injection by a reader          test/acceptance TestReplyInjection
//	nats kv revert                       test/acceptance TestTampering
//	snapshot of another gateway          test/acceptance TestTampering, shared/allowkv TestBadRecords
//	heartbeat replayed                   test/acceptance TestTampering, shared/allowlist TestRecordedStreamIsNotReplayed
//	truncated zstd                       shared/allowlist TestCompressedPayloads
//	decompression bomb                   shared/allowlist TestCompressedPayloads, shared/allowlist TestUnsignedBombIsNotOpened
//	same revision, another digest        shared/allowkv TestReplayJ09RestoredStore, shared/allowlist TestForks
//	unknown key id                       test/acceptance TestTampering, shared/allowkv TestBadRecords
//	empty value                          test/acceptance TestTampering, shared/allowkv TestGoneRecords
//	purge marker                         test/acceptance TestTampering, shared/allowkv TestGoneRecords
//	user removed by reload               test/acceptance TestUserIsRemoved
//	no consumer left                     test/acceptance TestConsumersAreExhausted, shared/allowkv TestNoConsumerLeft
//	account storage full                 test/acceptance TestStorageIsFull
//	wall clock wrong at a cold start     test/acceptance TestWritersWallClockIsWrong, shared/allowkv TestWrongWallClock
//
// A list is one message, so the items about chunks, one missing and one of an older list, do not apply.
//
// Must stay open:
//
//	leader steps down                    test/acceptance TestLeaderStepsDown
//	rolling restart with lame duck       test/acceptance TestRollingRestart
//	server restart within the bound      test/acceptance TestServerRestarts, shared/allowkv TestReplayJ01ShortRestartStaysOpen
//	leader of three killed               test/acceptance TestLeaderIsKilled, test/acceptance TestLeaderFallsSilent
//	one node lost                        test/acceptance TestOneNodeIsLost, shared/allowkv TestClusterLosesTheConsumersHost
//	wall clock set, writer               test/acceptance TestWritersWallClockIsSet, shared/allowlist TestWriterClocks
//	wall clock set, reader               shared/allowlist TestWallClockSteps
//
// Servers run in the test's process, but for the one that is killed. A reader's clocks cannot be set from outside; those
// of the pure reader are.
package acceptance
