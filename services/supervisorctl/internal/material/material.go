package material

import (
	"errors"
	"fmt"
	"io"

	"github.com/portcullis-mesh/portcullis/shared/secret"
)

// The files of the sandbox Secret (contract 7.7).
const (
	FileBoundary    = "boundary.json"
	FileCertificate = "tls.crt"
	FileKey         = "tls.key"
)

// The files of the supervisor Secret (contract 7.7). The last four are there only when the facts have them.
const (
	FileDescriptor        = "runtime-descriptor.json"
	FileAuth              = "auth.json"
	FileProxyCA           = "proxy-ca.crt"
	FileProxyCAKey        = "proxy-ca.key"
	FileUpstreamProxyCA   = "upstream-proxy-ca.pem"
	FileClientCA          = "client-ca.crt"
	FileClientCertificate = "client-tls.crt"
	FileClientKey         = "client-tls.key"
)

// Material is the data of the two Secrets of one generation, by file name. No value is empty.
type Material struct {
	// Sandbox is for the workload Pod. It holds no token, no key of a CA and no credential of a proxy.
	Sandbox map[string]secret.Value
	// Supervisor is for the supervisor Pod.
	Supervisor map[string]secret.Value
	// Fence is what both say about the fence.
	Fence Fence
}

// Wipe overwrites all values. The Bundle of the facts is not touched: its values are copied.
func (m *Material) Wipe() {
	for _, files := range []map[string]secret.Value{m.Sandbox, m.Supervisor} {
		for _, v := range files {
			v.Wipe()
		}
	}
}

// Make makes the material of one generation from facts and randomness, which must be cryptographically secure. It checks the
// facts and the sizes of both Secrets before it makes a key; what is wrong with them is an [*Error] or several, joined. Any
// other error is about the randomness. After an error nothing is left.
func Make(f *Facts, random io.Reader) (*Material, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if random == nil {
		return nil, errors.New("material: there is no source of randomness")
	}
	fence, err := FenceOf(f.Bundle.RuntimeGeneration(), f.FenceUID, f.FenceResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("writing the evidence of the fence: %w", err)
	}
	m := &Material{Sandbox: map[string]secret.Value{}, Supervisor: map[string]secret.Value{}, Fence: fence}
	if err := m.fill(f, newSource(random)); err != nil {
		m.Wipe()
		return nil, err
	}
	return m, nil
}

func (m *Material) fill(f *Facts, s *source) error {
	if err := put(m.Sandbox, FileBoundary, f.boundary(m.Fence)); err != nil {
		return err
	}
	m.pass(f)
	if err := m.checkSizes(reserved); err != nil {
		return err
	}
	tls, err := s.newServing(f.Bundle.SessionID())
	if err != nil {
		return fmt.Errorf("making the certificate of the boundary: %w", err)
	}
	m.Sandbox[FileCertificate] = secret.New([]byte(tls.certificate))
	m.Sandbox[FileKey] = tls.key
	if err := put(m.Supervisor, FileDescriptor, f.descriptor(m.Fence, tls.name, tls.trustAnchor)); err != nil {
		return err
	}
	certificate, key, err := s.newProxyCA()
	if err != nil {
		return fmt.Errorf("making the CA of the proxy: %w", err)
	}
	m.Supervisor[FileProxyCA] = secret.New([]byte(certificate))
	m.Supervisor[FileProxyCAKey] = key
	return m.checkSizes(0)
}

// pass copies what goes to the supervisor as it came.
func (m *Material) pass(f *Facts) {
	for name, text := range map[string][]byte{
		FileUpstreamProxyCA: f.UpstreamProxyCA, FileClientCA: f.ClientCA, FileClientCertificate: f.ClientCertificate,
	} {
		if len(text) > 0 {
			m.Supervisor[name] = secret.New(text)
		}
	}
	m.Supervisor[FileAuth] = copied(f.Bundle.Supervisor())
	if !f.ClientKey.IsZero() {
		m.Supervisor[FileClientKey] = copied(f.ClientKey)
	}
}

// copied returns a Value of its own, so that Wipe leaves the original.
func copied(v secret.Value) secret.Value {
	b := v.Expose() // to copy it
	defer clear(b)
	return secret.New(b)
}

func put(files map[string]secret.Value, name string, document any) error {
	text, err := encode(document)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	defer clear(text)
	files[name] = secret.New(text)
	return nil
}

// checkSizes refuses what the API server would not store, with room for what is not there yet.
func (m *Material) checkSizes(room int) error {
	for _, c := range []struct {
		field string
		files map[string]secret.Value
	}{{"ChildEnv", m.Sandbox}, {fieldPassed, m.Supervisor}} {
		size := room
		for _, v := range c.files {
			b := v.Expose() // for its length
			size += len(b)
			clear(b)
		}
		if size >= MaxSecretBytes {
			return &Error{Field: c.field, Problem: fmt.Sprintf("make a Secret of %d bytes, with %d kept for keys; it must stay below %d", size, room, MaxSecretBytes)}
		}
	}
	return nil
}
