package allowkv

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// streamConfig is the settings of a stream by their names in the API.
type streamConfig map[string]any

// harmless are the settings by which nothing is decided: words for people, and where replicas live.
var harmless = map[string]bool{"description": true, "metadata": true, "placement": true}

// differences says, one sentence each and in order, how got is not as c: also in settings that c does not have.
func (c streamConfig) differences(got streamConfig) []string {
	names := maps.Clone(map[string]any(c))
	maps.Copy(names, got)
	var found []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if harmless[name] {
			continue
		}
		want, have := settled(c[name]), settled(got[name])
		if want != have {
			found = append(found, fmt.Sprintf("%s is %s, must be %s", name, have, want))
		}
	}
	return found
}

// settled is the one spelling of a value. All that says nothing is one value: servers write some zero values out and
// leave others away.
func settled(value any) string {
	if empty(value) {
		return "unset"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// empty reports that value is absent or zero, or holds only such values.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) {
				return false
			}
		}
		return true
	default:
		return false
	}
}
