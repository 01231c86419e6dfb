package allowkv

import (
	"bytes"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

// publicKeys is the file with the keys that records may be signed with. It is compared by content: a swapped link, a
// rename and a write in place are all the same.
type publicKeys struct {
	path    string
	content []byte // of the set in use
	broken  bool   // the last poll failed
}

// poll reads the file and returns its keys when they are not those in use. The error is a file that cannot be read or
// parsed, or that is not whole yet; the set in use then stays.
func (k *publicKeys) poll() (set allowlist.KeySet, changed bool, err error) {
	file := pemfile.File{Key: "portcullis." + allowlist.Section + ".public_keys_file", Path: k.path}
	content, err := file.Read(allowlist.MaxKeyFile)
	if err != nil || k.content != nil && bytes.Equal(content, k.content) {
		return allowlist.KeySet{}, false, err
	}
	set, err = allowlist.ParseKeySet(content)
	if err != nil {
		return allowlist.KeySet{}, false, fmt.Errorf("%s: %w", file, err)
	}
	k.content = content
	return set, true, nil
}

// logKeysTrouble tells about the key file when its trouble begins and ends.
func logKeysTrouble(log *zerolog.Logger, err error, was bool) {
	switch {
	case err != nil && !was:
		log.Error().Err(err).Msg("the public keys cannot be read: the old ones stay in use")
	case err == nil && was:
		log.Info().Msg("the public keys can be read again")
	}
}

func keyIDs(set allowlist.KeySet) []string {
	var ids []string
	for _, id := range set.IDs() {
		ids = append(ids, string(id))
	}
	return ids
}
