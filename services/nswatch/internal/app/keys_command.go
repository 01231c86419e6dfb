package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
	"github.com/portcullis-mesh/portcullis/shared/command"
)

func keysCommand() *cobra.Command {
	keys := &cobra.Command{Use: "keys", Short: "Make keys that sign the allowlist", Args: cobra.NoArgs, RunE: command.NeedsSubcommand}
	var private, public string
	generate := &cobra.Command{
		Use:   "generate --private FILE --public FILE",
		Short: "Make a key pair, each half in a new file",
		Long: `Make an ed25519 key pair for signing the allowlist and print its id. The private file goes to nswatch only
(signing_key_file in [portcullis.nswatch]), the public one to nswatch and all readers (public_keys_file in
[portcullis.allowlist]). Neither file may exist.

To rotate: make a new pair; add the line of its public file to the public keys file of every reader and of nswatch,
below the old one; when all of them have it, give nswatch the new private file and restart it; when it has published,
take the old line out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if private == "" || public == "" {
				return errors.New("keys generate needs --private and --public, the files to make")
			}
			id, err := generateKeys(private, public, rand.Reader)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
			return err
		},
	}
	generate.Flags().StringVar(&private, "private", "", "file to make for the private key, readable by you only")
	generate.Flags().StringVar(&public, "public", "", "file to make for the public key")
	keys.AddCommand(generate)
	return keys
}

// generateKeys makes a pair in two new files, or neither file.
func generateKeys(private, public string, random io.Reader) (id allowlist.KeyID, err error) {
	signer, err := allowlist.GenerateSigner(random)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	defer signer.Wipe()
	content, err := signer.PrivateFile()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	defer content.Wipe()
	text := content.Expose() // into its file
	defer clear(text)
	if err := writeNew(private, text, 0o600); err != nil {
		return "", fmt.Errorf("private key: %w", err)
	}
	if err := writeNew(public, []byte(signer.Public().FileLine()), 0o644); err != nil {
		return "", errors.Join(fmt.Errorf("public key: %w", err), os.Remove(private))
	}
	return signer.Public().ID(), nil
}

// writeNew makes a file that does not exist, whole and on disk, or none.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%q exists, and a key is never overwritten; name another file", path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
