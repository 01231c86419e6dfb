package driverconf

import "reflect"

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
// environment variable. Three more flags of that list set keys of a table:
// --bind-socket sets Kubernetes.SocketPath, --log-level sets Portcullis.LogLevel
// and --otlp-endpoint sets otlp_endpoint of the section telemetry. --bind-address
// is refused, since the driver is served on a private Unix socket only.
type Standalone struct {
	// GatewayName names the gateway instance in logs; any text, empty means unknown.
	GatewayName string `flag:"gateway-name"`
}

// Load reads, merges and validates the settings. The error is Problems, with all
// of them at once, unless src itself is wrong (a section that is no pointer to a
// struct, flags that were not registered). A settings file that cannot be read or
// is no TOML is one problem; beside it, the flags and variables are still judged,
// as far as a rule does not need what the file may have said. Load touches no file
// but the settings file.
func Load(src Source) (*Config, error) {
	sections, err := checkSections(src.Sections)
	if err != nil {
		return nil, err
	}
	if err := checkFlags(src.Flags); err != nil {
		return nil, err
	}
	name, text, hasFile, err := src.text()
	l := newLoader(hasFile, sections)
	switch {
	case err != nil:
		l.unread = true
		l.add(Problem{Origin: Origin{Kind: OriginFile, Name: name}, Text: "settings file " + err.Error()})
	case hasFile:
		l.unread = !l.file(name, text)
	}
	l.overrides(src)
	l.config.Kubernetes.normalise()
	l.validate(src)
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
	doubts
}

func newLoader(hasFile bool, sections []table) *loader {
	c := &Config{
		Kubernetes: defaultKubernetes(hasFile),
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
	return &loader{config: c, doubts: newDoubts()}
}

// report tells what is wrong with a value that was not understood; the rules will
// not judge what stands in its place.
func (l *loader) report(key string, o Origin, text string) {
	l.doubts.fail(key)
	l.add(Problem{Key: key, Origin: o, Text: text})
}

func (l *loader) add(p Problem) { l.problems = append(l.problems, p) }

func (l *loader) bound(key string, o Origin) { l.config.origins[key] = o }

func (l *loader) table(prefix string) (table, bool) {
	for _, t := range l.config.tables {
		if t.prefix == prefix {
			return t, true
		}
	}
	return table{}, false
}

// validate asks every table for its problems, and then the source. A problem is
// told only if the key and every other input of the rule have the values that were
// meant for them.
func (l *loader) validate(src Source) {
	under := func(prefix string) Report {
		return func(key, problem string, inputs ...string) {
			for _, input := range append(inputs, key) {
				if !l.known(prefix + input) {
					return
				}
			}
			l.add(Problem{Key: prefix + key, Origin: l.originOf(prefix + key), Text: problem})
		}
	}
	l.config.Kubernetes.check(under(kubernetesPrefix + "."))
	for _, name := range sectionNames {
		if s, used := src.Sections[name]; used {
			report := under(portcullisPrefix + "." + name + ".")
			s.Validate(func(key, problem string) { report(key, problem) })
		}
	}
	if src.Validate != nil {
		src.Validate(l.config, under(""))
	}
}

// originOf finds the origin of a key, or of the setting that holds it.
func (l *loader) originOf(key string) Origin {
	for ; key != ""; key = parentKey(key) {
		if o, ok := l.config.origins[key]; ok {
			return o
		}
	}
	return Origin{}
}
