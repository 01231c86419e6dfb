package allowlist

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// agreesWithJSON holds our reader against the standard library's: a list that we accept is the one that everybody
// else sees in the same bytes.
func agreesWithJSON(t *testing.T, payload []byte, list List) {
	t.Helper()
	var generic struct {
		Namespaces []struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"namespaces"`
	}
	if err := json.Unmarshal(payload, &generic); err != nil {
		t.Errorf("encoding/json refuses what we accept: %v", err)
		return
	}
	var entries []Entry
	for _, e := range generic.Namespaces {
		entries = append(entries, Entry{Name: e.Name, UID: e.UID})
	}
	if diff := cmp.Diff(List{entries: entries}, list, compareValues()); diff != "" && len(entries)+list.Len() > 0 {
		t.Errorf("encoding/json reads another list (-json +ours):\n%s", diff)
	}
}

func TestAgreesWithJSON(t *testing.T) {
	s := validSnapshot(t)
	payload, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	agreesWithJSON(t, payload, s.Namespaces)
}
