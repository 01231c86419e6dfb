package command

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// writeKeys prints the stock settings as a table, one line per key.
func writeKeys(w io.Writer) error {
	// What cannot be written shows at Flush.
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "KEY\tTYPE\tDEFAULT\tVARIABLE\tFLAG\tRULE")
	for _, k := range driverconf.Keys() {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.Type, k.Default, orDash(k.Env), orDash(k.Flag), k.Rule)
	}
	return table.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
