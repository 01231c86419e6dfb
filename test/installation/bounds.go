package installation

import (
	"strings"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/shared/driverconf"
)

// config reads the bounds as a daemon would.
func (i *Installation) config() allowkv.Config {
	i.t.Helper()
	cfg := allowkv.DefaultConfig()
	text := "[portcullis.allowlist]\n" + strings.Join(i.Bounds, "\n") + "\n"
	_, err := driverconf.Load(driverconf.Source{
		Bytes: []byte(text), Sections: map[string]driverconf.Section{"allowlist": &cfg},
	})
	if err != nil {
		i.t.Fatalf("the bounds of the installation: %v", err)
	}
	cfg.PublicKeysFile = i.publics
	return cfg
}
