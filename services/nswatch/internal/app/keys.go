package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/pemfile"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// everybody are the rights of those who are neither the owner nor in the group. The group may read: the kubelet gives
// mounted Secrets to the Pod's fsGroup.
const everybody fs.FileMode = 0o007

// readKeys reads the signing key, and compares it with the public keys. A signer whose key is not among them would
// publish what no reader accepts.
func readKeys(s *Settings) (*allowlist.Signer, error) {
	keys, publicErr := readPublicKeys(s.Allowlist.PublicKeysFile)
	signer, privateErr := readSigner(s.Own.SigningKeyFile)
	if err := errors.Join(privateErr, publicErr); err != nil {
		return nil, err
	}
	if !keys.Has(signer.Public()) {
		return nil, fmt.Errorf("the key of %s, %s, is not among those of %s %q: every reader would refuse what it signs; add its public line to that file, for the readers too",
			pemfile.File{Key: keySigning, Path: s.Own.SigningKeyFile}, signer.Public().ID(), keyPublic, s.Allowlist.PublicKeysFile)
	}
	return signer, nil
}

func readPublicKeys(path string) (allowlist.KeySet, error) {
	file := pemfile.File{Key: keyPublic, Path: path}
	text, err := file.Read(allowlist.MaxKeyFile)
	if err != nil {
		return allowlist.KeySet{}, err
	}
	keys, err := allowlist.ParseKeySet(text)
	if err != nil {
		return allowlist.KeySet{}, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

func readSigner(path string) (*allowlist.Signer, error) {
	file := pemfile.File{Key: keySigning, Path: path}
	text, err := file.Read(allowlist.MaxKeyFile)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if mode := info.Mode().Perm(); mode&everybody != 0 {
		return nil, fmt.Errorf("%s has mode %04o: everybody on this machine can get at the key; take the rights of others away (chmod o= FILE, or defaultMode 0440 of the Secret's volume)", file, mode)
	}
	content := secret.New(text)
	defer content.Wipe()
	signer, err := allowlist.ParseSigner(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return signer, nil
}
