package poddriver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// AnnotationBehaviour on a Pod chooses its behaviour by name, for tests that reach Pods only through a Sandbox's
// template. Its value is what [ParseBehaviour] reads.
const AnnotationBehaviour = "portcullis.test/pod-behaviour"

// Behaviour is the script of one Pod. The zero value becomes Running and Ready at once and stops at once.
type Behaviour struct {
	// StartAfter is how long the Pod stays in ContainerCreating after it was bound and its volumes exist.
	StartAfter time.Duration
	// Waiting keeps the Pod Pending with this container reason, such as ImagePullBackOff.
	Waiting string
	// CrashLoop shows a Running Pod, never ready, whose containers wait in CrashLoopBackOff.
	CrashLoop bool
	// ReadyAfter is the time from Running to Ready.
	ReadyAfter time.Duration
	// NeverReady keeps a Running Pod unready.
	NeverReady bool
	// FlapEvery makes a Ready Pod unready after this time, ready again after the same time, and so on.
	FlapEvery time.Duration
	// End lets the Pod end by itself; nil lets it run.
	End *End
	// StopAfter is how long the containers take to stop once the Pod is deleted. A grace period that is shorter ends them
	// with exit code 137.
	StopAfter time.Duration
	// IgnoreDeletion leaves a deleted Pod Terminating for ever, as a node that is lost does.
	IgnoreDeletion bool
}

// End says how a Pod ends by itself. Exit code 0 gives phase Succeeded, everything else Failed, whatever the Pod's
// restartPolicy.
type End struct {
	After    time.Duration // from Running
	ExitCode int32
	Reason   string // of the container; by default Completed or Error
	Evicted  bool   // the kubelet evicted the Pod: phase Failed, Pod reason Evicted
}

const (
	defaultSlow  = 3 * time.Second
	killedExit   = 137
	evictedExit  = 137
	crashedExit  = 1
	crashRestart = 3
)

// named holds the behaviours with names. Each takes the duration that may follow the name.
var named = map[string]func(d time.Duration) Behaviour{
	"ready":              func(d time.Duration) Behaviour { return Behaviour{ReadyAfter: d} },
	"slow-start":         func(d time.Duration) Behaviour { return Behaviour{StartAfter: or(d, defaultSlow)} },
	"not-ready":          func(time.Duration) Behaviour { return Behaviour{NeverReady: true} },
	"flap":               func(d time.Duration) Behaviour { return Behaviour{FlapEvery: or(d, defaultSlow)} },
	"image-pull-backoff": func(d time.Duration) Behaviour { return Behaviour{StartAfter: d, Waiting: "ImagePullBackOff"} },
	"crash-loop":         func(d time.Duration) Behaviour { return Behaviour{StartAfter: d, CrashLoop: true} },
	"succeed":            func(d time.Duration) Behaviour { return Behaviour{End: &End{After: d}} },
	"fail":               func(d time.Duration) Behaviour { return Behaviour{End: &End{After: d, ExitCode: crashedExit}} },
	"evict":              func(d time.Duration) Behaviour { return Behaviour{End: &End{After: d, Evicted: true}} },
	"slow-stop":          func(d time.Duration) Behaviour { return Behaviour{StopAfter: or(d, defaultSlow)} },
	"ignore-deletion":    func(time.Duration) Behaviour { return Behaviour{IgnoreDeletion: true} },
}

// ParseBehaviour reads a name, or name=duration in Go's notation: ready (until Ready), slow-start, not-ready, flap,
// image-pull-backoff, crash-loop (both after a start of that length), succeed, fail, evict (all from Running), slow-stop,
// ignore-deletion. Without a duration the slow ones and flap take 3 s and the others 0.
func ParseBehaviour(text string) (Behaviour, error) {
	name, duration, given := strings.Cut(text, "=")
	script, ok := named[name]
	if !ok {
		return Behaviour{}, fmt.Errorf("pod behaviour %q is unknown: use one of %s, with =duration if wanted",
			text, strings.Join(slices.Sorted(maps.Keys(named)), ", "))
	}
	if !given {
		return script(0), nil
	}
	d, err := time.ParseDuration(duration)
	if err != nil || d < 0 {
		return Behaviour{}, fmt.Errorf("pod behaviour %q: %q is not a duration such as 500ms or 2s", text, duration)
	}
	return script(d), nil
}

func or(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}
