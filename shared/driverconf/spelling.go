package driverconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unknownText explains an unknown name and offers the nearest known one.
func unknownText(what, name string, known []string) string {
	near := nearest(name, known)
	switch {
	case near == "":
		return "unknown " + what
	case strings.EqualFold(near, name):
		return fmt.Sprintf("unknown %s; names are case-sensitive: use %s", what, near)
	default:
		return fmt.Sprintf("unknown %s; did you mean %s?", what, near)
	}
}

// nearest returns the known name that a slip of the fingers would turn into
// name, or "" when none is near. Case and the two kinds of dash do not count.
func nearest(name string, known []string) string {
	const longest = 80
	if len(name) > longest {
		return ""
	}
	fold := strings.NewReplacer("-", "_")
	folded := fold.Replace(strings.ToLower(name))
	best, bestDistance := "", 0
	for _, k := range known {
		limit := nearLimit(k)
		d := editDistance(folded, fold.Replace(k))
		if d <= limit && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	return best
}

// nearLimit is how many slips still point at name: few in a short word, where
// more would turn it into any other.
func nearLimit(name string) int {
	switch n := len(name); {
	case n < 5:
		return 1
	case n < 12:
		return 2
	default:
		return 3
	}
}

// editDistance counts inserted, dropped, replaced and swapped neighbouring
// bytes (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// removed is a key that older releases of the stock driver had.
type removed struct{ key, text string }

// removedText tells what took the place of keys that went with the split
// supervisor (contract 3.1).
var removedText = map[string]string{
	"topology": "removed, use supervisor_image and sandbox_runtime_image instead: " +
		"there is one topology left, with the supervisor in a Pod of its own",
	"sidecar": "removed, use supervisor_image instead: " +
		"the supervisor is no longer a sidecar but a Pod of its own",
	"sidecar.proxy_uid": "removed, use sandbox_uid to choose the workload's user: " +
		"the proxy left the workload's Pod and needs no uid there",
	"sidecar.process_binary_aware_network_policy": "removed, use no key in its place: " +
		"the sidecar that it adjusted is gone",
	"supervisor_sideload_method": "removed, use sandbox_runtime_image instead: " +
		"that image is the only way the runtime gets into the workload's Pod",
	"app_armor_profile": "removed, use the node's AppArmor default: " +
		"the driver no longer chooses a profile",
}

// removedNames lists the removed keys and tables of the table prefix.
func removedNames(prefix string) []string {
	if prefix != kubernetesPrefix {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(removedText)) {
		if !strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// removedKeys returns the removed keys that key and its value stand for: one for
// a plain key, one for each key below the removed table.
func removedKeys(key string, v any) []removed {
	name, ok := strings.CutPrefix(key, kubernetesPrefix+".")
	if !ok || removedText[name] == "" {
		return nil
	}
	inner, _ := v.(map[string]any)
	var all []removed
	for _, child := range slices.Sorted(maps.Keys(inner)) {
		text := removedText[name+"."+child]
		if text == "" {
			text = removedText[name]
		}
		all = append(all, removed{key: joinKey(key, child), text: text})
	}
	if len(all) == 0 {
		all = append(all, removed{key: key, text: removedText[name]})
	}
	return all
}
