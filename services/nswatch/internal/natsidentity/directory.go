package natsidentity

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

const (
	// maxSeed bounds a seed file; a seed has 58 bytes.
	maxSeed = 1 << 10
	// maxAuthority bounds the authorities' certificates.
	maxAuthority = 1 << 20
	// everybody are the rights of those who are neither the owner nor in the group.
	everybody fs.FileMode = 0o007
)

// Directory is where the identities of one installation are kept.
type Directory struct {
	// Path exists, or is made for its owner alone.
	Path string
	// GatewayID names the gateway, Namespace is where the mesh runs, Authority is the file with the certificates that the NATS
	// servers' own chain to.
	GatewayID, Namespace, Authority string
}

// Made is what became of one identity.
type Made struct {
	Name, Public string
	// New says that the seed was made; else it was there.
	New bool
}

// Fill makes the seeds that are missing, one file for each of [Names], and writes [File], the authority and a kustomization
// beside them, over those of before. After an error some of it may be there; it can be repeated. An error holds no seed.
func (d Directory) Fill() ([]Made, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	authority, err := pemfile.File{Key: "--ca-file", Path: d.Authority}.Read(maxAuthority)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(authority); block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("--ca-file %q holds no certificate in PEM", d.Authority)
	}
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the identities: %w", err)
	}
	publics := map[string]string{}
	var all []Made
	for _, name := range names {
		made, err := d.identity(name)
		if err != nil {
			return all, fmt.Errorf("identity %s: %w", name, err)
		}
		publics[name], all = made.Public, append(all, made)
	}
	config, err := Config(d.GatewayID, publics)
	if err != nil {
		return all, err
	}
	return all, errors.Join(d.replace("ca.crt", authority), d.replace("kustomization.yaml", []byte(Kustomization(d.Namespace))), d.replace(File, []byte(config)))
}

func (d Directory) validate() error {
	var problems []error
	if d.Path == "" {
		problems = append(problems, errors.New("--dir is empty; name the directory of the identities"))
	}
	if d.GatewayID == "" || len(validation.IsValidLabelValue(d.GatewayID)) > 0 || bytes.Contains([]byte(d.GatewayID), []byte("..")) {
		problems = append(problems, fmt.Errorf("--gateway-id is %q; it must be the gateway_id of the settings, a label value without two dots together", d.GatewayID))
	}
	if len(validation.IsDNS1123Label(d.Namespace)) > 0 {
		problems = append(problems, fmt.Errorf("--namespace is %q, which is no name of a namespace", d.Namespace))
	}
	return errors.Join(problems...)
}

// identity reads the seed of an identity, or makes it.
func (d Directory) identity(name string) (Made, error) {
	path := filepath.Join(d.Path, seedFile(name))
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return d.create(name, path)
	}
	if err != nil {
		return Made{}, err
	}
	if mode := info.Mode().Perm(); mode&everybody != 0 {
		return Made{}, fmt.Errorf("%q has mode %04o: everybody on this machine can get at the seed; delete it to have another made, or chmod o= it if nobody has seen it", path, mode)
	}
	seed, err := pemfile.File{Key: name, Path: path}.Read(maxSeed)
	if err != nil {
		return Made{}, err
	}
	defer clear(seed)
	pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return Made{}, fmt.Errorf("%q is no seed; delete it to have another made", path)
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return Made{}, fmt.Errorf("%q is no seed of a user; delete it to have another made", path)
	}
	return Made{Name: name, Public: public}, nil
}

func (d Directory) create(name, path string) (Made, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Made{}, fmt.Errorf("make a key: %w", err)
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return Made{}, fmt.Errorf("make a key: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return Made{}, fmt.Errorf("make a key: %w", err)
	}
	defer clear(seed)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Made{}, err
	}
	if err := finish(file, seed); err != nil {
		return Made{}, errors.Join(err, os.Remove(path))
	}
	return Made{Name: name, Public: public, New: true}, nil
}

// replace writes a file of the directory in one step.
func (d Directory) replace(name string, content []byte) error {
	file, err := os.CreateTemp(d.Path, "."+name+".*")
	if err != nil {
		return err
	}
	err = finish(file, content)
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(d.Path, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(file.Name()))
	}
	return nil
}

// finish writes a new file whole and to disk, and closes it.
func finish(file *os.File, content []byte) error {
	_, err := file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
