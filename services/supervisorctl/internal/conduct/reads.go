package conduct

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Panic is what a goroutine of a goal panicked with, which the goal's own goroutine panics with again: whoever asked for the goal can recover
// from it there, and one odd object ends that goal alone.
type Panic struct {
	// Kind is the type of the value. The value may hold anything, so it is not kept.
	Kind string
	// Stack is that of the goroutine.
	Stack []byte
}

// String says of which type the value was.
func (p *Panic) String() string { return "a read panicked with a " + p.Kind }

// Recovered is what [recover] returned, as a Panic.
func Recovered(value any) *Panic {
	if p, ok := value.(*Panic); ok {
		return p
	}
	return &Panic{Kind: fmt.Sprintf("%T", value), Stack: debug.Stack()}
}

// reads are reads at once. The zero reads has none.
type reads struct {
	group  sync.WaitGroup
	mu     sync.Mutex
	caught *Panic
}

// begin begins one.
func (r *reads) begin(read func()) {
	r.group.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.caught = Recovered(value)
			}
		}()
		read()
	})
}

// wait returns when all have ended, or panics with what one of them panicked with.
func (r *reads) wait() {
	r.group.Wait()
	if r.caught != nil {
		panic(r.caught)
	}
}
