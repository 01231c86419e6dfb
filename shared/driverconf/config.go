package driverconf

import (
	"reflect"
	"strings"
)

// Config is the complete, valid settings of one daemon.
type Config struct {
	// Kubernetes is the stock table.
	Kubernetes Kubernetes
	// Standalone holds the stock driver's settings that are no keys of a table.
	Standalone Standalone
	// Portcullis is the mesh's common table.
	Portcullis Portcullis

	tables  []table
	origins map[string]Origin
}

// Standalone holds the settings of contract 3.3 that exist only as a flag and an
// environment variable. Two more flags of that list set keys of a table:
// --bind-socket sets Kubernetes.SocketPath and --log-level sets
// Portcullis.LogLevel.
type Standalone struct {
	// BindAddress is the IP address and port to listen on when there is no socket
	// (contract 2.2). Default 127.0.0.1:50061. Nothing here says that it is
	// loopback.
	BindAddress string `flag:"bind-address"`
	// OTLPEndpoint is the trace collector's URL; empty means no traces.
	OTLPEndpoint string `flag:"otlp-endpoint"`
	// GatewayName names the gateway instance; empty means unknown.
	GatewayName string `flag:"gateway-name"`
}

func defaultStandalone() Standalone { return Standalone{BindAddress: "127.0.0.1:50061"} }

// Load reads, merges and validates the settings. The error is Problems, with all
// of them at once, unless the file cannot be read at all or src itself is wrong
// (a section that is no pointer to a struct, flags that were not registered).
// Load touches no file but the settings file.
func Load(src Source) (*Config, error) {
	sections, err := checkSections(src.Sections)
	if err != nil {
		return nil, err
	}
	if err := checkFlags(src.Flags); err != nil {
		return nil, err
	}
	name, text, hasFile, err := src.text()
	if err != nil {
		return nil, err
	}
	l := newLoader(hasFile, sections)
	parsed := true
	if hasFile {
		parsed = l.file(name, text)
	}
	l.overrides(src)
	if parsed {
		l.config.Kubernetes.normalise()
		l.validate(src.Sections)
	}
	if len(l.problems) > 0 {
		return nil, l.problems.sorted()
	}
	return l.config, nil
}

// Origin tells where the effective value of a key comes from. The key is the
// full dotted key, or the flag with its dashes for the fields of Standalone. The
// zero Origin means that there is no such key.
func (c *Config) Origin(key string) Origin { return c.origins[key] }

// loader is the state of one Load.
type loader struct {
	config   *Config
	problems Problems
	failed   map[string]bool // keys with a problem already
}

func newLoader(hasFile bool, sections []table) *loader {
	c := &Config{
		Kubernetes: defaultKubernetes(hasFile),
		Standalone: defaultStandalone(),
		Portcullis: Portcullis{LogLevel: LogInfo},
		origins:    map[string]Origin{},
	}
	c.tables = append([]table{
		{prefix: flagPrefix, value: reflect.ValueOf(&c.Standalone).Elem()},
		{prefix: kubernetesPrefix, value: reflect.ValueOf(&c.Kubernetes).Elem()},
		{prefix: portcullisPrefix, value: reflect.ValueOf(&c.Portcullis).Elem()},
	}, sections...)
	for _, t := range c.tables {
		eachLeaf(t.prefix, t.value, func(key string, _ reflect.Value) {
			c.origins[key] = Origin{Kind: OriginDefault}
		})
	}
	return &loader{config: c, failed: map[string]bool{}}
}

func (l *loader) report(key string, o Origin, text string) {
	l.failed[key] = true
	l.problems = append(l.problems, Problem{Key: key, Origin: o, Text: text})
}

func (l *loader) bound(key string, o Origin) { l.config.origins[key] = o }

func (l *loader) table(prefix string) (table, bool) {
	for _, t := range l.config.tables {
		if t.prefix == prefix {
			return t, true
		}
	}
	return table{}, false
}

// validate asks every table for its problems. What did not even parse is not
// reported a second time.
func (l *loader) validate(sections map[string]Section) {
	ask := func(prefix string, s Section) {
		failed := make(map[string]bool, len(l.failed))
		for key := range l.failed {
			failed[key] = true
		}
		s.Validate(func(key, problem string) {
			full := under(prefix, key)
			if !failed[full] {
				l.report(full, l.originOf(full), problem)
			}
		})
	}
	ask(kubernetesPrefix, &l.config.Kubernetes)
	ask(flagPrefix, &l.config.Standalone)
	for _, name := range sectionNames {
		if s, used := sections[name]; used {
			ask(portcullisPrefix+"."+name, s)
		}
	}
}

// under puts a table's prefix in front of a relative dotted key.
func under(prefix, key string) string {
	if prefix == flagPrefix {
		return prefix + key
	}
	return prefix + "." + key
}

// originOf finds the origin of a key, or of the setting that holds it.
func (l *loader) originOf(key string) Origin {
	for key != "" {
		if o, ok := l.config.origins[key]; ok {
			return o
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return Origin{}
}
