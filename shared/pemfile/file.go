package pemfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Max bounds a certificate, key or token file, bytes. The largest sensible bundle is a fraction of it.
const Max = 1 << 20

// File is a settings key and the path it holds. The key is only for errors.
type File struct {
	Key, Path string
}

// String names both, for errors.
func (f File) String() string { return fmt.Sprintf("%s %q", f.Key, f.Path) }

// Read returns the content of a regular file, or of a link to one, of at most limit bytes. An empty file is no error.
// Secret volumes consist of links, hence they are followed.
func (f File) Read(limit int64) ([]byte, error) {
	// Opening a pipe would otherwise wait for a writer.
	file, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ENXIO) { // what opening a socket says
		return nil, fmt.Errorf("%s is not a regular file", f)
	}
	if err != nil {
		return nil, f.explain(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, f.explain(err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", f)
	case info.Size() > limit:
		return nil, fmt.Errorf("%s is larger than %d bytes", f, limit)
	case info.Size() == 0:
		// Not read: files of the kernel say so too, and some of them block or never end.
		return nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, f.explain(err)
	case int64(len(content)) > limit: // it grew
		return nil, fmt.Errorf("%s is larger than %d bytes", f, limit)
	}
	return content, nil
}

// explain drops the operation and the path, which String has.
func (f File) explain(err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%s: %w", f, err)
}

// Pool returns the certificates of a bundle of at most Max bytes, all of which must be sound.
func (f File) Pool() (*x509.CertPool, error) {
	content, err := f.Read(Max)
	if err != nil {
		return nil, err
	}
	pool, err := ParsePool(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	return pool, nil
}

// KeyPair returns a certificate, with its chain if the file has one, and its key. All must be sound.
func KeyPair(cert, key File) (tls.Certificate, error) {
	certPEM, certErr := cert.Read(Max)
	keyPEM, keyErr := key.Read(Max)
	defer clear(keyPEM)
	if err := errors.Join(certErr, keyErr); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := ParseKeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%s with %s: %w", cert, key, err)
	}
	return pair, nil
}
