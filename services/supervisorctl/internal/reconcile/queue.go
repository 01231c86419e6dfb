package reconcile

import "container/heap"

// queue holds entries by the time at which they are due.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push fulfils heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop fulfils heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	e.index = -1
	return e
}

// remove takes an entry out, if it is in.
func (q *queue) remove(e *entry) {
	if e.index >= 0 && e.index < len(*q) && (*q)[e.index] == e {
		heap.Remove(q, e.index)
	}
}
