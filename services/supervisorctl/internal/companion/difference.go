package companion

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// listKey says what tells the elements of a list apart that others may add to. All other lists must be equal, element by
// element: a command with one more argument is another command.
func listKey(field string) (key string, keyed bool) {
	switch field {
	case "containers", "volumes", "env", "imagePullSecrets":
		return "name", true
	case "volumeMounts":
		return "mountPath", true
	case "ownerReferences":
		return "uid", true
	default:
		return "", false
	}
}

// exact says that an element of ours must not have anything beside what is rendered: the API server adds nothing to it, and
// what anybody else adds, such as a subPath, an optional Secret or a value where we render an empty one, changes what it means.
func exact(field string) bool { return field != "containers" && field != "ownerReferences" }

// secretive says that the values of a list are not to be shown: a command may hold what its owner wants kept.
func secretive(field string) bool { return field == "env" }

// difference is the first thing that wanted says and existing does not, in words; empty when there is none. Both are the
// same kind of object.
func difference(existing, wanted any) (string, error) {
	e, err := runtime.DefaultUnstructuredConverter.ToUnstructured(existing)
	if err != nil {
		return "", err
	}
	w, err := runtime.DefaultUnstructuredConverter.ToUnstructured(wanted)
	if err != nil {
		return "", err
	}
	delete(w, "status")
	return objectDiffers("", e, w), nil
}

func valueDiffers(path, field string, existing, wanted any) string {
	switch w := wanted.(type) {
	case map[string]any:
		if e, ok := existing.(map[string]any); ok {
			return objectDiffers(path, e, w)
		}
	case []any:
		if e, ok := existing.([]any); ok {
			return listDiffers(path, field, e, w)
		}
	default:
		if existing == wanted {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, and must be %s", path, shown(existing), shown(wanted))
}

func objectDiffers(path string, existing, wanted map[string]any) string {
	if path != "" {
		path += "."
	}
	for _, field := range slices.Sorted(maps.Keys(wanted)) {
		e, ok := existing[field]
		if !ok {
			return fmt.Sprintf("%s%s is not set, and must be %s", path, field, shown(wanted[field]))
		}
		if d := valueDiffers(path+field, field, e, wanted[field]); d != "" {
			return d
		}
	}
	return ""
}

func listDiffers(path, field string, existing, wanted []any) string {
	key, keyed := listKey(field)
	if !keyed {
		if len(existing) != len(wanted) {
			return fmt.Sprintf("%s is %s, and must be %s", path, shown(existing), shown(wanted))
		}
		for i := range wanted {
			if d := valueDiffers(fmt.Sprintf("%s[%d]", path, i), "", existing[i], wanted[i]); d != "" {
				return d
			}
		}
		return ""
	}
	for _, w := range wanted {
		if d := memberDiffers(path, field, key, existing, w); d != "" {
			return d
		}
	}
	return ""
}

// memberDiffers looks for one element among those of a list. Of two with one name the later one counts, for some readers.
func memberDiffers(path, field, key string, existing []any, wanted any) string {
	id := member(wanted, key)
	var same []any
	for _, e := range existing {
		if member(e, key) == id {
			same = append(same, e)
		}
	}
	at := fmt.Sprintf("%s[%s=%.80v]", path, key, id)
	switch {
	case len(same) != 1:
		return fmt.Sprintf("%s is there %d times, and must be once", at, len(same))
	case !exact(field):
		return valueDiffers(at, "", same[0], wanted)
	case reflect.DeepEqual(same[0], wanted):
		return ""
	case secretive(field):
		return at + " has another value than it must have"
	default:
		return fmt.Sprintf("%s is %s, and must be %s", at, shown(same[0]), shown(wanted))
	}
}

func member(v any, key string) any {
	object, _ := v.(map[string]any)
	return object[key]
}

// shown is the JSON of a value, cut where it is too long to read.
func shown(v any) string {
	const longest = 160
	text, err := json.Marshal(v)
	if err != nil {
		return "not printable"
	}
	if len(text) > longest {
		return string(text[:longest]) + "..."
	}
	return string(text)
}
