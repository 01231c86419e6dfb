package app_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/natstest"
)

// TestKeysEndTheStart: whatever is wrong with a key file is one line that names it, and nothing of a key.
func TestKeysEndTheStart(t *testing.T) {
	private, public := pair(t)
	otherPrivate, otherPublic := pair(t)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	open := write(t, "open.key", read(private))
	if err := os.Chmod(open, 0o604); err != nil {
		t.Fatal(err)
	}
	group := write(t, "group.key", read(private))
	if err := os.Chmod(group, 0o440); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		private, public string
		want            []string
	}{
		"absent":                {"/nonexistent/key", public, []string{"signing_key_file", "/nonexistent/key"}},
		"both absent":           {"/nonexistent/key", "/nonexistent/pub", []string{"signing_key_file", "public_keys_file"}},
		"directory":             {filepath.Dir(private), public, []string{"signing_key_file", "not a regular file"}},
		"endless":               {"/dev/zero", public, []string{"signing_key_file", "not a regular file"}},
		"empty":                 {write(t, "empty", ""), public, []string{"signing_key_file", "0 keys"}},
		"public where private":  {write(t, "k", read(public)), public, []string{"signing_key_file", "a private key is due here"}},
		"private where public":  {private, write(t, "k", read(private)), []string{"public_keys_file", "must not be handed out"}},
		"readable by everybody": {open, public, []string{"signing_key_file", "0604"}},
		"too large":             {write(t, "large", strings.Repeat("#\n", 64<<10)), public, []string{"signing_key_file", "larger than"}},
		"key of another":        {otherPrivate, public, []string{"not among those", "public_keys_file", public}},
		// The keys are in order, so that the start goes on to the next thing that is wrong.
		"in rotation":    {otherPrivate, write(t, "both", read(public)+read(otherPublic)), []string{"/nonexistent/kubeconfig"}},
		"group may read": {group, public, []string{"/nonexistent/kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := operator(tc.private, tc.public) + "[portcullis.kubernetes]\nkubeconfig = \"/nonexistent/kubeconfig\"\n"
			got := program.Run(t.Context(), "--config", write(t, "gateway.toml", text))
			if got.Code == 0 || got.Stdout != "" {
				t.Fatalf("%+v", got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.Stderr, want) {
					t.Errorf("%q is not in\n%s", want, got.Stderr)
				}
			}
			secretPart := strings.Fields(read(private))[2]
			if strings.Contains(got.Stderr, secretPart) {
				t.Error("the key is printed")
			}
		})
	}
}

// TestNoNamespace: outside of a Pod the Lease needs a namespace from the settings.
func TestNoNamespace(t *testing.T) {
	private, public := pair(t)
	text := operator(private, public, "lease_namespace = \"mesh\"\n", "")
	got := program.Run(t.Context(), "--config", write(t, "gateway.toml", text))
	if got.Code == 0 || !strings.Contains(got.Stderr, "portcullis.nswatch.lease_namespace is empty") || !strings.Contains(got.Stderr, "POD_NAMESPACE") {
		t.Errorf("%+v", got)
	}
}

// TestFailedStartHoldsNothing: the address of the embedded server is free again, and nothing runs.
func TestFailedStartHoldsNothing(t *testing.T) {
	private, public := pair(t)
	address, store := natstest.New(t).Addr(), filepath.Join(t.TempDir(), "store")
	text := operator(private, public, `urls = ["nats://127.0.0.1:4222"]`, fmt.Sprintf("embedded = true\nembedded_listen = %q\nembedded_store_dir = %q", address, store)) +
		"[portcullis.kubernetes]\nkubeconfig = \"/nonexistent/kubeconfig\"\n"
	got := program.Run(t.Context(), "--config", write(t, "gateway.toml", text))
	if got.Code == 0 || !strings.Contains(got.Stderr, "/nonexistent/kubeconfig") {
		t.Fatalf("%+v", got)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the address is still held: %v", err)
	}
	_ = listener.Close()
}
