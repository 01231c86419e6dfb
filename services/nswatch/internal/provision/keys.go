package provision

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/portcullis-mesh/portcullis/services/nswatch/internal/natsidentity"
	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/secret"
)

const (
	signingName = "portcullis-nswatch-signing"
	publicName  = "portcullis-allowlist-keys"
	keySeed     = "seed"
	keyPrivate  = "private.key"
	keyPublic   = "public.keys"
	auditName   = "portcullis-tokenauth-audit"
	// gatewayIdentity is the one that is made for those alone who ask for it: no Pod of the mesh uses it.
	gatewayIdentity = "gateway"
	keyHash         = "hash.key"
	// hashBytes is what shared/audit asks for at least.
	hashBytes = 32
)

// identities makes the seeds, each with the authority of the servers, and the file by which the servers know them.
func (m *maker) identities(ctx context.Context, servers []byte) error {
	publics := map[string]string{}
	for _, name := range natsidentity.Names() {
		if name == gatewayIdentity && !m.GatewayReader {
			continue
		}
		content, err := m.secret(ctx, natsidentity.Secret(name), corev1.SecretTypeOpaque, func(have map[string][]byte) (map[string][]byte, error) {
			if have != nil {
				return map[string][]byte{keyCA: servers, keySeed: have[keySeed]}, nil
			}
			return newSeed(servers)
		})
		if err != nil {
			return err
		}
		if publics[name], err = publicOf(content[keySeed]); err != nil {
			return fmt.Errorf("seed in Secret %s: %w", natsidentity.Secret(name), err)
		}
	}
	return m.config(ctx, natsidentity.ConfigMap, natsidentity.File, func(have string) (string, error) {
		if !m.GatewayReader {
			publics[gatewayIdentity] = natsidentity.Public(have, gatewayIdentity)
		}
		if !nkeys.IsValidPublicUserKey(publics[gatewayIdentity]) {
			var err error
			if publics[gatewayIdentity], err = nobody(); err != nil {
				return "", err
			}
		}
		return natsidentity.Config(m.GatewayID, publics)
	})
}

// nobody is a public key whose seed is forgotten.
func nobody() (string, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return public, nil
}

func newSeed(servers []byte) (map[string][]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return map[string][]byte{keyCA: servers, keySeed: bytes.Clone(seed)}, nil // Wipe clears what Seed returned
}

func publicOf(seed []byte) (string, error) {
	pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return "", errors.New("it is no seed; delete the Secret to have another made")
	}
	defer pair.Wipe()
	public, err := pair.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", errors.New("it is no seed of a user; delete the Secret to have another made")
	}
	return public, nil
}

// signing makes the key of the allowlist. The list of public keys is made once and then the operator's, who rotates keys in it: it must
// only hold the key that signs.
func (m *maker) signing(ctx context.Context) error {
	content, err := m.secret(ctx, signingName, corev1.SecretTypeOpaque, func(have map[string][]byte) (map[string][]byte, error) {
		if have != nil {
			return have, nil
		}
		return newSigner()
	})
	if err != nil {
		return err
	}
	file := secret.New(content[keyPrivate])
	defer file.Wipe()
	signer, err := allowlist.ParseSigner(file)
	if err != nil {
		return fmt.Errorf("%s in Secret %s: %w", keyPrivate, signingName, err)
	}
	defer signer.Wipe()
	return m.config(ctx, publicName, keyPublic, func(have string) (string, error) {
		if have == "" {
			return signer.Public().FileLine(), nil
		}
		keys, err := allowlist.ParseKeySet([]byte(have))
		if err == nil && !keys.Has(signer.Public()) {
			err = fmt.Errorf("it does not hold key %s, which signs: add its line, %q, or no reader believes the allowlist", signer.Public().ID(), signer.Public().FileLine())
		}
		return have, err
	})
}

func newSigner() (map[string][]byte, error) {
	signer, err := allowlist.GenerateSigner(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	defer signer.Wipe()
	file, err := signer.PrivateFile()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	defer file.Wipe()
	return map[string][]byte{keyPrivate: file.Expose()}, nil // into its Secret
}

// audit makes the key of the tokens' hashes, which all replicas of tokenauth share.
func (m *maker) audit(ctx context.Context) error {
	_, err := m.secret(ctx, auditName, corev1.SecretTypeOpaque, func(have map[string][]byte) (map[string][]byte, error) {
		if have != nil {
			return have, nil
		}
		key := make([]byte, hashBytes)
		_, err := rand.Read(key)
		return map[string][]byte{keyHash: key}, err
	})
	return err
}

// config brings the one key of a ConfigMap to what want says of what there is.
func (m *maker) config(ctx context.Context, name, key string, want func(string) (string, error)) error {
	fail := func(err error) error { return fmt.Errorf("ConfigMap %s: %w", name, err) }
	have, err := m.configs.Get(ctx, name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fail(err)
	}
	if missing {
		have = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels()}}
	}
	text, err := want(have.Data[key])
	switch {
	case err != nil:
		return fail(err)
	case !missing && have.Data[key] == text:
		m.Report("kept", "ConfigMap "+name)
		return nil
	case !ours(have):
		return fail(fmt.Errorf("it was made by somebody else and its %s is not what it must be: delete it to have it made", key))
	}
	have.Data = map[string]string{key: text}
	if missing {
		_, err = m.configs.Create(ctx, have, metav1.CreateOptions{})
	} else {
		_, err = m.configs.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fail(err)
	}
	m.Report(map[bool]string{true: "made", false: "renewed"}[missing], "ConfigMap "+name)
	return nil
}
