package pemfile_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/portcullis-mesh/portcullis/shared/pemfile"
)

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{io.EOF, "EOF"},
		{errors.Join(io.EOF, io.ErrClosedPipe), "EOF; io: read/write on closed pipe"},
		{errors.New("yaml: line 1:\r\n\t  did not find\x1b[31m it\n"), "yaml: line 1:; did not find [31m it"},
		{errors.New("\n"), ""},
	} {
		if got := pemfile.OneLine(c.err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%q: got %q, want %q", c.err, got, c.want)
		}
	}
	if pemfile.OneLine(nil) != nil {
		t.Error("no error became one")
	}
}

func ExampleFile() {
	authorities := pemfile.File{Key: "ca_file", Path: "/nowhere/ca.crt"}
	_, err := authorities.Pool()
	fmt.Println(err)
	// Output: ca_file "/nowhere/ca.crt": no such file or directory
}
