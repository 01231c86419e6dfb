package filesource

import (
	"errors"
	"fmt"
)

// result is the outcome of one read, as the label of its metric.
type result string

// The results. Each failure has its own, so that what to do can be told from the metric.
const (
	resultOK          result = "ok"
	resultMissing     result = "missing"
	resultDangling    result = "dangling_symlink"
	resultLoop        result = "symlink_loop"
	resultUnreadable  result = "unreadable"
	resultDirectory   result = "directory"
	resultFIFO        result = "fifo"
	resultDevice      result = "device"
	resultSocket      result = "socket"
	resultTooLarge    result = "too_large"
	resultEmpty       result = "empty"
	resultEncoding    result = "not_utf8"
	resultJSON        result = "not_json"
	resultShape       result = "not_an_array_of_strings"
	resultName        result = "invalid_name"
	resultTooMany     result = "too_many_names"
	resultUnstable    result = "changing"
	resultTimeout     result = "timeout"
	resultOtherSystem result = "other"
)

// results are all values of the label result.
var results = [...]result{
	resultOK, resultMissing, resultDangling, resultLoop, resultUnreadable, resultDirectory, resultFIFO, resultDevice,
	resultSocket, resultTooLarge, resultEmpty, resultEncoding, resultJSON, resultShape, resultName, resultTooMany,
	resultUnstable, resultTimeout, resultOtherSystem,
}

// failure is why a file gives no list.
type failure struct {
	result result
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failf(r result, format string, args ...any) error {
	return &failure{result: r, err: fmt.Errorf(format, args...)}
}

// resultOf is the label of an error; resultOK for nil.
func resultOf(err error) result {
	var f *failure
	switch {
	case err == nil:
		return resultOK
	case errors.As(err, &f):
		return f.result
	default:
		return resultOtherSystem
	}
}
