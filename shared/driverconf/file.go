package driverconf

import (
	"fmt"
	"maps"
	"slices"
)

// schemaVersion is the settings file's schema that this package reads (contract 2.1).
const schemaVersion = 2

// file applies a settings file and tells whether it was TOML at all.
func (l *loader) file(name string, text []byte) bool {
	doc, problem := parseDocument(name, text)
	if problem != nil {
		l.problems = append(l.problems, *problem)
		return false
	}
	b := binder{origin: doc.origin, report: l.report, bound: l.bound, slip: l.slip}
	for _, top := range slices.Sorted(maps.Keys(doc.tree)) {
		switch top {
		case "openshell":
			l.openshell(b, doc.tree[top])
		case portcullisPrefix:
			l.portcullis(b, doc.tree[top])
		default:
			key := joinKey("", top)
			l.unknownTable(key, doc.origin(key), "", top, "openshell", portcullisPrefix)
		}
	}
	return true
}

// openshell reads the driver's table out of the gateway's. The other tables are
// the gateway's business, except where one looks like a slip that would leave
// the driver's table unread.
func (l *loader) openshell(b binder, v any) {
	gateway, ok := v.(map[string]any)
	if !ok {
		b.wrongType("openshell", "a table", v)
		return
	}
	if version, set := gateway["version"]; set {
		switch x, isInt := version.(int64); {
		case !isInt:
			b.wrongType("openshell.version", "an integer", version)
		case x != schemaVersion:
			l.report("openshell.version", b.origin("openshell.version"),
				fmt.Sprintf("is %d, but only schema version %d can be read; migrate the file", x, schemaVersion))
		}
	}
	drivers, ok := l.child(b, "openshell", "drivers", gateway)
	if !ok {
		return
	}
	if kubernetes, ok := l.child(b, "openshell.drivers", "kubernetes", drivers); ok {
		t, _ := l.table(kubernetesPrefix)
		b.section(t, kubernetes)
	}
}

// child returns a table inside another. When it is absent but a sibling's name
// is a slip away from it, that sibling is the problem.
func (l *loader) child(b binder, prefix, name string, parent map[string]any) (map[string]any, bool) {
	v, present := parent[name]
	if !present {
		for _, sibling := range slices.Sorted(maps.Keys(parent)) {
			if nearest(sibling, []string{name}) != "" {
				key := joinKey(prefix, sibling)
				l.unknownTable(key, b.origin(key), prefix, sibling, name)
			}
		}
		return nil, false
	}
	inner, ok := v.(map[string]any)
	if !ok {
		b.wrongType(prefix+"."+name, "a table", v)
	}
	return inner, ok
}

func (l *loader) unknownTable(key string, o Origin, prefix, name string, known ...string) {
	l.slip(joinKey(prefix, nearest(name, known)))
	l.report(key, o, unknownText("table", name, known))
}

// portcullis reads [portcullis] and the sections this daemon uses.
func (l *loader) portcullis(b binder, v any) {
	mesh, ok := v.(map[string]any)
	if !ok {
		b.wrongType(portcullisPrefix, "a table", v)
		return
	}
	own := map[string]any{}
	common, _ := l.table(portcullisPrefix)
	isOwn := func(name string) bool { return leafAt(common, joinKey(portcullisPrefix, name)).IsValid() }
	for _, name := range slices.Sorted(maps.Keys(mesh)) {
		key := joinKey(portcullisPrefix, name)
		inner, isTable := mesh[name].(map[string]any)
		switch isSection := slices.Contains(sectionNames, name); {
		case !isSection && isTable && !isOwn(name):
			l.unknownTable(key, b.origin(key), portcullisPrefix, name, sectionNames...)
		case !isSection:
			own[name] = mesh[name]
		case !isTable:
			b.wrongType(key, "a table", mesh[name])
		default:
			if t, used := l.table(key); used {
				b.section(t, inner)
			}
		}
	}
	b.section(common, own)
}
