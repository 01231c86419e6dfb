package manual_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/portcullis-mesh/portcullis/shared/handbook"
)

// TestSizing: what docs/sizing.md says is asked for, allowed, started and bounded is what the manifests and the programs say.
func TestSizing(t *testing.T) {
	all := installed(t)
	handbook.Check(t, sizing, *update, map[string]handbook.Table{
		"containers": containersTable(t, all), "overlays": overlaysTable(t, all), "replicas": replicasTable(t, all), "bounds": boundsTable(t, all), "defaults": defaultsTable(t),
	})
}

// collectsAt is the share of its limit of memory at which the collector of a container works harder: nine tenths for all but these.
var collectsAt = map[string]float64{"nats": 0.8}

// workload is as much of an object as these tables are about.
type workload struct {
	of       string // the kustomization that renders it
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Replicas *int
		Template corev1.PodTemplateSpec
		// JobTemplate is a CronJob's.
		JobTemplate struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		VolumeClaimTemplates []corev1.PersistentVolumeClaim
	}
}

func (w *workload) containers() []corev1.Container {
	spec := w.Spec.Template.Spec
	if w.Kind == "CronJob" {
		spec = w.Spec.JobTemplate.Spec.Template.Spec
	}
	return append(slices.Clone(spec.InitContainers), spec.Containers...)
}

// installed are the workloads of every overlay, and of every component in an overlay, as test/deploy holds them to what kustomize renders.
func installed(t *testing.T) (all []workload) {
	t.Helper()
	files, err := filepath.Glob(root + "/test/deploy/testdata/golden/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d renderings: %v", len(files), err)
	}
	for _, file := range files {
		documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(handbook.Read(t, file)), 4096)
		for {
			w := workload{of: strings.TrimSuffix(filepath.Base(file), ".yaml")}
			err := documents.Decode(&w)
			if errors.Is(err, io.EOF) {
				break
			}
			if slices.Contains([]string{"Deployment", "StatefulSet", "Job", "CronJob"}, w.Kind) {
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				all = append(all, w)
			}
		}
	}
	return all
}

// order is that of the rows; what is not in it comes behind.
var order = []string{"nswatch", "tokenauth", "supervisorctl", "lifecycle", "relay", "nats", "reload"}

func ordered[V any](found map[string]V) []string {
	place := func(name string) int {
		if at := slices.Index(order, name); at >= 0 {
			return at
		}
		return len(order)
	}
	names := slices.Sorted(maps.Keys(found))
	slices.SortStableFunc(names, func(a, b string) int { return place(a) - place(b) })
	return names
}

// containersTable are all containers but the reader's own gateway: wherever one stands, it asks for the same.
func containersTable(t *testing.T, all []workload) handbook.Table {
	t.Helper()
	found := map[string][]string{}
	for _, w := range all {
		for _, c := range w.containers() {
			name := strings.TrimPrefix(c.Name, "portcullis-")
			if name == "openshell" {
				continue
			}
			cells := containerCells(t, name, &c)
			if before, again := found[name]; again && !slices.Equal(before, cells) {
				t.Errorf("the container %s of %s in %s has %q, and elsewhere it has %q", c.Name, w.Metadata.Name, w.of, cells, before)
			}
			found[name] = cells
		}
	}
	w := handbook.Table{Head: []string{"Container", "Asked for", "At most", "`GOMEMLIMIT`", "Resident, as measured"}}
	for _, name := range ordered(found) {
		w.Rows = append(w.Rows, append([]string{"`" + name + "`"}, found[name]...))
	}
	return w
}

func containerCells(t *testing.T, name string, c *corev1.Container) []string {
	t.Helper()
	limit := c.Resources.Limits[corev1.ResourceMemory]
	collects := "–"
	for _, e := range c.Env {
		if e.Name != "GOMEMLIMIT" {
			continue
		}
		value, err := resource.ParseQuantity(strings.TrimSuffix(e.Value, "B"))
		if err != nil {
			t.Fatalf("GOMEMLIMIT of %s: %v", name, err)
		}
		want := collectsAt[name]
		if want == 0 {
			want = 0.9
		}
		if share := value.AsApproximateFloat64() / limit.AsApproximateFloat64(); fmt.Sprintf("%.2f", share) != fmt.Sprintf("%.2f", want) {
			t.Errorf("GOMEMLIMIT of %s is %.3f of its limit of memory, want %.2f: change both together", name, share, want)
		}
		collects = size(value.Value())
	}
	processor := c.Resources.Requests[corev1.ResourceCPU]
	return []string{
		size(c.Resources.Requests.Memory().Value()) + ", " + processor.String(), size(limit.Value()), collects,
	}
}

// size is a number of bytes for people.
func size(bytes int64) string {
	switch {
	case bytes%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 1<<30:
		return fmt.Sprintf("%.3g GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%g MiB", float64(bytes)/(1<<20))
}

// replicasTable are the workloads with replicas, as most overlays have them, and those that have another number.
func replicasTable(t *testing.T, all []workload) handbook.Table {
	t.Helper()
	found := map[string]map[int][]string{}
	for _, w := range all {
		if _, err := os.Stat(filepath.Join(root, "deploy/kustomize/overlays", w.of)); err != nil || w.Spec.Replicas == nil {
			continue
		}
		if found[w.Metadata.Name] == nil {
			found[w.Metadata.Name] = map[int][]string{}
		}
		found[w.Metadata.Name][*w.Spec.Replicas] = append(found[w.Metadata.Name][*w.Spec.Replicas], "`"+w.of+"`")
	}
	table := handbook.Table{Head: []string{"Workload", "Replicas", "Why"}}
	for _, name := range ordered(found) {
		counts := slices.Sorted(maps.Keys(found[name]))
		slices.SortStableFunc(counts, func(a, b int) int { return len(found[name][b]) - len(found[name][a]) })
		said := fmt.Sprint(counts[0])
		for _, n := range counts[1:] {
			said += fmt.Sprintf("; %d in %s", n, strings.Join(found[name][n], ", "))
		}
		table.Rows = append(table.Rows, []string{"`" + name + "`", said})
	}
	return table
}

// overlaysTable are what all Pods of an overlay that stay there ask for together, and what they may have.
func overlaysTable(t *testing.T, all []workload) handbook.Table {
	t.Helper()
	type sum struct {
		pods, servers                      int
		processor, asked, allowed, volumes int64
	}
	sums := map[string]*sum{}
	for _, w := range all {
		if _, err := os.Stat(filepath.Join(root, "deploy/kustomize/overlays", w.of)); err != nil || w.Spec.Replicas == nil {
			continue
		}
		if sums[w.of] == nil {
			sums[w.of] = &sum{}
		}
		s, n := sums[w.of], int64(*w.Spec.Replicas)
		s.pods += *w.Spec.Replicas
		for _, c := range w.containers() {
			if slices.ContainsFunc(w.Spec.Template.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name && i.RestartPolicy == nil }) {
				continue // it has ended when the others begin
			}
			s.processor += n * c.Resources.Requests.Cpu().MilliValue()
			s.asked += n * c.Resources.Requests.Memory().Value()
			s.allowed += n * c.Resources.Limits.Memory().Value()
		}
		for _, claim := range w.Spec.VolumeClaimTemplates {
			s.servers = *w.Spec.Replicas
			s.volumes = claim.Spec.Resources.Requests.Storage().Value()
		}
	}
	table := handbook.Table{Head: []string{"Overlay", "Pods", "Asked for", "Memory at most", "Volumes", "Nodes"}}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s, volumes := sums[name], "–"
		if sums[name].servers > 0 {
			volumes = fmt.Sprintf("%d of %s", sums[name].servers, size(sums[name].volumes))
		}
		table.Rows = append(table.Rows, []string{
			"`" + name + "`", fmt.Sprint(s.pods), fmt.Sprintf("%s, %dm", size(s.asked), s.processor), size(s.allowed), volumes,
		})
	}
	return table
}

// boundsTable are the bounds of NATS: of its files, of the volume, and of what is made in it.
func boundsTable(t *testing.T, all []workload) handbook.Table {
	t.Helper()
	server := parsed(t, "server.conf", "")
	var identities strings.Builder // the variables that an installation has of its own
	for _, name := range regexp.MustCompile(`\$([A-Z]+_[A-Z_]+)`).FindAllStringSubmatch(handbook.Read(t, natsFiles+"accounts.conf"), -1) {
		fmt.Fprintf(&identities, "%s: x\n", name[1])
	}
	accounts := parsed(t, "accounts.conf", identities.String())["accounts"].(map[string]any)
	of := func(account, block, key string) int64 {
		return accounts[account].(map[string]any)[block].(map[string]any)[key].(int64)
	}
	store := server["jetstream"].(map[string]any)
	history := handbook.Scan(t, root+"/shared/allowkv", regexp.MustCompile(`\n\thistory = (\d+)\n`))
	if len(history) != 1 {
		t.Fatalf("package allowkv says %d times how many messages of a key are kept", len(history))
	}
	var kept int64
	if _, err := fmt.Sscan(history[0].Groups[1], &kept); err != nil {
		t.Fatal(err)
	}
	const keys = 2 // of a gateway: the snapshot and the heartbeat
	var connections []string
	for _, account := range slices.Sorted(maps.Keys(accounts)) {
		if _, limited := accounts[account].(map[string]any)["limits"]; limited {
			connections = append(connections, fmt.Sprintf("`%s` %d", strings.ToLower(account), of(account, "limits", "max_connections")))
		}
	}
	message := server["max_payload"].(int64)
	audit := defaults(t)["portcullis.audit"]["max_bytes"]["tokenauth"]
	var stream int64
	if _, err := fmt.Sscanf(audit, "`%d`", &stream); err != nil {
		t.Fatalf("max_bytes of [portcullis.audit] is %s: %v", audit, err)
	}
	w := handbook.Table{Head: []string{"What", "Bound", "Set in", "Takes"}}
	add := func(what, bound, where string) { w.Rows = append(w.Rows, []string{what, bound, where}) }
	add("the volume of a server", claimed(t, all), "`statefulset.yaml`")
	add("the store on it", size(store["max_file_store"].(int64)), "`server.conf`")
	add("the bucket's account", size(of("ALLOWLIST", "jetstream", "max_file")), "`accounts.conf`")
	add("a gateway's list in the bucket", size(keys*kept*message), fmt.Sprintf("%d messages of each of %d keys", kept, keys))
	add("the audit stream's account", size(of("AUDIT", "jetstream", "max_file")), "`accounts.conf`")
	add("the audit stream", size(stream), "`max_bytes` of `[portcullis.audit]`")
	add("a message", size(message), "`server.conf`")
	add("consumers of a stream", fmt.Sprint(store["limits"].(map[string]any)["default_max_consumers"]), "`server.conf`")
	add("consumers in the bucket's account", fmt.Sprint(of("ALLOWLIST", "jetstream", "max_consumers")), "`accounts.conf`")
	add("consumers in the audit stream's account", fmt.Sprint(of("AUDIT", "jetstream", "max_consumers")), "`accounts.conf`")
	add("connections to a server", fmt.Sprint(server["max_connections"]), "`server.conf`")
	add("connections of an account", strings.Join(connections, ", "), "`accounts.conf`")
	return w
}

const natsFiles = root + "/deploy/kustomize/base/nats/"

// parsed is a file of the NATS server's configuration as the server reads it, with what it includes.
func parsed(t *testing.T, name, included string) map[string]any {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{name: handbook.Read(t, natsFiles+name), "identities.conf": included} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read, err := conf.ParseFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// claimed is the volume of a NATS server, which is the same in every overlay.
func claimed(t *testing.T, all []workload) string {
	t.Helper()
	found := map[string]bool{}
	for _, w := range all {
		for _, claim := range w.Spec.VolumeClaimTemplates {
			if w.Metadata.Name == "nats" {
				found[size(claim.Spec.Resources.Requests.Storage().Value())] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), " or ")
}

// defaultsTable are the settings that are raised when there is more to do, as they are without being set.
func defaultsTable(t *testing.T) handbook.Table {
	t.Helper()
	all := defaults(t)
	w := handbook.Table{Head: []string{"Setting", "Default", "Raise it when"}}
	for _, s := range []struct{ table, key string }{
		{"kubernetes", "qps"},
		{"kubernetes", "burst"},
		{"tokenauth", "max_concurrent"},
		{"tokenauth", "max_concurrent_per_bearer"},
		{"supervisorctl", "max_concurrent"},
		{"supervisorctl", "max_concurrent_per_namespace"},
		{"supervisorctl", "reconcile_rate"},
		{"lifecycle", "watch_queue"},
		{"audit", "max_bytes"},
	} {
		keys := all["portcullis."+s.table]
		if keys[s.key] == nil {
			t.Errorf("no program reads %s of [portcullis.%s]", s.key, s.table)
			continue
		}
		var said []string // one value, or each program's
		for _, reader := range slices.Sorted(maps.Keys(keys[s.key])) {
			said = append(said, "`"+reader+"` "+strings.TrimSuffix(strings.Trim(keys[s.key][reader], "`"), ".0"))
		}
		w.Rows = append(w.Rows, []string{fmt.Sprintf("`%s` of `[portcullis.%s]`", s.key, s.table), strings.Join(said, ", ")})
	}
	return w
}
