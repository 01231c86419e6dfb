package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/portcullis-mesh/portcullis/shared/allowkv"
	"github.com/portcullis-mesh/portcullis/test/mesh"
)

// listShow leaves out what other scripts have left on the list.
func (p *play) listShow(ctx context.Context, _ []string) (answer, error) {
	m := p.stage.site.Mesh
	text, err := m.Command(ctx, mesh.Nswatch, "allowlist", "show", "--config", m.Settings(mesh.Nswatch), "--output", "json")
	if err != nil {
		return answer{}, err
	}
	var shown struct {
		Snapshot struct {
			List struct{ Namespaces []struct{ Name string } }
		}
	}
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		return answer{}, fmt.Errorf("nswatch allowlist show: %w", err)
	}
	var names []string
	for name, actual := range p.names {
		for _, entry := range shown.Snapshot.List.Namespaces {
			if entry.Name == actual {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return listed(names), nil
}

func (p *play) listVerify(ctx context.Context, _ []string) (answer, error) {
	m := p.stage.site.Mesh
	a := answer{word: "usable"}
	if _, err := m.Command(ctx, mesh.Nswatch, "allowlist", "verify", "--config", m.Settings(mesh.Nswatch)); err != nil {
		a.word, a.note = "unusable", err.Error()
	}
	return a, nil
}

// damage is no record: nobody has signed it. Like what `nats kv put` writes it does not expire, as the writer's own heartbeats do.
const damage = "not a record"

func (p *play) listDamage(ctx context.Context, args []string) (answer, error) {
	return done, p.record(ctx, args[0], func(bucket jetstream.KeyValue, key string) error {
		_, err := bucket.Put(ctx, key, []byte(damage))
		return err
	})
}

// listScars looks for the damage in the record's history: it is the current record again when all that came after it has expired.
func (p *play) listScars(ctx context.Context, args []string) (answer, error) {
	var scars []string
	err := p.record(ctx, args[0], func(bucket jetstream.KeyValue, key string) error {
		entries, err := bucket.History(ctx, key)
		for _, entry := range entries {
			if string(entry.Value()) == damage {
				scars = append(scars, strconv.FormatUint(entry.Revision(), 10))
			}
		}
		return err
	})
	return listed(scars), err
}

// record is used by somebody who may do everything in the bucket.
func (p *play) record(ctx context.Context, name string, use func(bucket jetstream.KeyValue, key string) error) error {
	if name != "snapshot" && name != "heartbeat" {
		return fmt.Errorf("%q is neither snapshot nor heartbeat", name)
	}
	conn, err := nats.Connect(p.stage.site.Mesh.NATSURL())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	bucket, err := js.KeyValue(ctx, allowkv.Bucket)
	if err != nil {
		return err
	}
	return use(bucket, p.stage.site.GatewayID+"."+name)
}

var errNoFile = errors.New("on this stage namespaces are chosen by a label")

func (p *play) listWrite(ctx context.Context, args []string) (answer, error) {
	return p.put(ctx, args[0], (*listFile).write)
}

func (p *play) listReplace(ctx context.Context, args []string) (answer, error) {
	return p.put(ctx, args[0], (*listFile).replace)
}

func (p *play) listMount(ctx context.Context, args []string) (answer, error) {
	return p.put(ctx, args[0], (*listFile).mount)
}

func (p *play) listRemove(ctx context.Context, _ []string) (answer, error) {
	if p.stage.list == nil {
		return answer{}, errNoFile
	}
	if err := p.stage.list.remove(); err != nil {
		return answer{}, err
	}
	return p.read(ctx)
}

// put gives nswatch a file of the script, with the real names of namespaces.
func (p *play) put(ctx context.Context, file string, put func(*listFile, []byte) error) (answer, error) {
	if p.stage.list == nil {
		return answer{}, errNoFile
	}
	text, err := os.ReadFile(filepath.Join(p.work, file))
	if err != nil {
		return answer{}, err
	}
	if err := put(p.stage.list, []byte(os.Expand(string(text), p.namespace))); err != nil {
		return answer{}, err
	}
	return p.read(ctx)
}

// read waits for what nswatch makes of the file as it is now: a read may have begun before, the one behind it has not.
func (p *play) read(ctx context.Context) (a answer, err error) {
	if !p.stage.runs(mesh.Nswatch) {
		return answer{word: "unread"}, nil
	}
	before, err := p.reads(ctx)
	if err != nil {
		return answer{}, err
	}
	err = poll(ctx, func() (bool, error) {
		now, err := p.reads(ctx)
		for result, count := range now {
			if count >= before[result]+2 {
				a.word = result
				return true, err
			}
		}
		return false, err
	})
	return a, err
}

// reads are how often nswatch has read the file, by result.
func (p *play) reads(ctx context.Context) (map[string]float64, error) {
	_, body, err := p.admin(ctx, mesh.Nswatch, "/metrics")
	if err != nil {
		return nil, err
	}
	counts := map[string]float64{}
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), `portcullis_nswatch_file_reads_total{result="`)
		if !ok {
			continue
		}
		result, value, _ := strings.Cut(rest, `"} `)
		if counts[result], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, fmt.Errorf("a metric of nswatch: %w", err)
		}
	}
	if len(counts) == 0 {
		return nil, errors.New("nswatch counts no reads of the file")
	}
	return counts, nil
}
