// Package companionstest is what tests of the stand-ins share: addresses that nobody else has, a test
// program that plays the workload, and a look at processes.
//
//	func TestMain(m *testing.M) {
//		companionstest.PlayWorkload() // does not return when the program was called as the workload
//		goleak.VerifyTestMain(m)
//	}
//
// Callers: tests of runtime, supervisor and the commands.
package companionstest
