package inquiry

import (
	"fmt"
	"runtime/debug"
)

// Panic is what Decide and Explain panic with when a read that they had begun early panicked, in a goroutine of its own. It is a
// defect of the daemon; whoever recovers from it logs the stack.
type Panic struct {
	// Type of the value of the panic. The value itself may hold anything, so it is not kept.
	Type string
	// Stack of the goroutine in which it happened.
	Stack []byte
}

// Error fulfils error.
func (p *Panic) Error() string { return "a read ahead panicked with a value of type " + p.Type }

// panicOf is called while the panic of value is recovered from.
func panicOf(value any) *Panic { return &Panic{Type: fmt.Sprintf("%T", value), Stack: debug.Stack()} }
