package authenticate

import "testing"

// BenchmarkEvaluate is the whole of one decision, without what the cluster takes.
func BenchmarkEvaluate(b *testing.B) {
	for _, mode := range modes {
		b.Run(string(mode), func(b *testing.B) {
			e, f := evaluatorIn(b, mode), valid(b, mode).facts()
			b.ReportAllocs()
			for b.Loop() {
				if !e.Evaluate(f).Decision.Granted() {
					b.Fatal("refused")
				}
			}
		})
	}
}
