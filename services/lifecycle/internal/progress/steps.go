package progress

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys of the progress display, and its steps (contract 10).
const (
	keyCompleteStep  = "openshell.progress.complete_step"
	keyCompleteLabel = "openshell.progress.complete_label"
	keyActiveStep    = "openshell.progress.active_step"
	keyActiveDetail  = "openshell.progress.active_detail"

	stepRequesting = "requesting_sandbox"
	stepPulling    = "pulling_image"
	stepStarting   = "starting_sandbox"
)

// steps adds what an event says about progress, by its reason.
func steps(e *Event, metadata map[string]string) {
	switch e.Reason {
	case "Scheduled":
		metadata[keyCompleteStep], metadata[keyCompleteLabel], metadata[keyActiveStep] = stepRequesting, "Sandbox allocated", stepPulling
	case "Pulling":
		metadata[keyActiveStep] = stepPulling
		if image := quoted(e.Message); image != "" {
			metadata[keyActiveDetail] = image
		}
	case "Pulled":
		label := "Image pulled"
		if bytes, ok := imageSize(e.Message); ok {
			label += " (" + size(bytes) + ")"
		}
		metadata[keyCompleteStep], metadata[keyCompleteLabel], metadata[keyActiveStep] = stepPulling, label, stepStarting
	}
}

// quoted is what stands between the first two quotes.
func quoted(message string) string {
	_, after, _ := strings.Cut(message, `"`)
	inside, _, closed := strings.Cut(after, `"`)
	if !closed {
		return ""
	}
	return inside
}

// imageSize finds N in "Image size: N bytes".
func imageSize(message string) (uint64, bool) {
	_, after, found := strings.Cut(message, "Image size: ")
	digits, _, ended := strings.Cut(after, " bytes")
	if !found || !ended {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// size is a number of bytes for people, in binary multiples with decimal names, as the contract has it.
func size(n uint64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch {
	case n >= gib:
		return fmt.Sprintf("%.1f GB", float64(n)/gib)
	case n >= mib:
		return fmt.Sprintf("%d MB", n/mib)
	case n >= kib:
		return fmt.Sprintf("%d KB", n/kib)
	}
	return fmt.Sprintf("%d B", n)
}
