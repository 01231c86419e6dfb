package inventory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/verdict"
	"github.com/portcullis-mesh/portcullis/shared/workspace"
)

const (
	// maxRecord is how long the annotation may be, and maxEntries how many objects it may name: more than a request can ask for.
	maxRecord  = 64 << 10
	maxEntries = 64
	maxUID     = 128
)

// Record is which objects a sandbox was made with, by their uids. The nil Record is of none.
type Record map[Attachment]types.UID

// Encode is the value of the annotation openshell.ai/resource-admission-identities (contract 4.4): JSON with sorted keys.
func (r Record) Encode() (string, error) {
	if len(r) > maxEntries {
		return "", fmt.Errorf("recording attachments: there are %d, and at most %d can be recorded", len(r), maxEntries)
	}
	entries := make(map[string]string, len(r))
	for a, uid := range r {
		if _, err := parse(a.String()); err != nil {
			return "", fmt.Errorf("recording attachments: %.300q %w", a.String(), err)
		}
		if !wellFormed(uid) {
			return "", fmt.Errorf("recording attachments: %s has no uid", a)
		}
		entries[a.String()] = string(uid)
	}
	text, err := json.Marshal(entries)
	return string(text), err
}

// Decode reads what Encode wrote. No annotation is a record of no objects; anything else that Encode would not write is refused.
func Decode(annotation string) (Record, verdict.Decision) {
	record, err := decode(annotation)
	if err != nil {
		text := "annotation " + workspace.AnnotationAdmissionIdentities + " " + err.Error()
		return nil, verdict.Refuse(verdict.AttachmentRecordInvalid, "attachments", text).WithMessage(text)
	}
	return record, verdict.Grant(verdict.Evidence{})
}

func decode(annotation string) (Record, error) {
	if annotation == "" {
		return nil, nil
	}
	if len(annotation) > maxRecord {
		return nil, fmt.Errorf("is longer than %d bytes", maxRecord)
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(annotation)))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	record := Record{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, errors.New("is not a JSON object")
		}
		a, err := parse(key.(string)) // the key of an object is a string
		if err != nil {
			return nil, fmt.Errorf("has an entry that %w", err)
		}
		value, err := decoder.Token()
		uid, isText := value.(string)
		if err != nil || !isText || !wellFormed(types.UID(uid)) {
			return nil, fmt.Errorf("has no uid for %s", a)
		}
		if _, twice := record[a]; twice || len(record) == maxEntries {
			return nil, fmt.Errorf("names an object twice, or more than %d", maxEntries)
		}
		record[a] = types.UID(uid)
	}
	if _, err := decoder.Token(); err != nil || decoder.InputOffset() != int64(len(annotation)) {
		return nil, errors.New("is not one JSON object")
	}
	return record, nil
}

// Same says whether objects that are attached now are those of the record (contract 11.5, 7.11). What the record names and nothing is
// attached to any more does not count.
func (r Record) Same(now Record) verdict.Decision {
	for _, a := range sorted(keys(now)) {
		was, recorded := r[a]
		var text string
		switch {
		case !recorded:
			text = "was not admitted when the sandbox was made"
		case was == "" || was != now[a]:
			text = "was replaced since the sandbox was made"
		default:
			continue
		}
		text = a.String() + " " + text
		return verdict.Refuse(verdict.AttachmentReplaced, "attachments", text).WithMessage(text)
	}
	return verdict.Grant(verdict.Evidence{})
}

func keys(r Record) []Attachment {
	list := make([]Attachment, 0, len(r))
	for a := range maps.Keys(r) {
		list = append(list, a)
	}
	return list
}

func wellFormed(uid types.UID) bool {
	return uid != "" && len(uid) <= maxUID && !strings.ContainsFunc(string(uid), func(r rune) bool { return r <= ' ' || r > '~' })
}
