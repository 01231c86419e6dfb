package labelsource

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// Limits of a list, bytes and counts. etcd takes no object above 1.5 MiB, and of more namespaces than twice those that
// a list may hold no list can be made.
const (
	maxBody       = 1 << 31
	maxItem       = 4 << 20
	maxHead       = 64 << 10
	maxNamespaces = 2 * allowlist.MaxNames
)

// listing is a list as the API server gave it.
type listing struct {
	// order is the resource version of the list.
	order uint64
	// namespaces are sorted by name, each name once.
	namespaces []allowlist.Candidate
	// orders are the resource versions of the namespaces.
	orders []uint64
}

// Len, Less and Swap fulfil sort.Interface.
func (l *listing) Len() int           { return len(l.namespaces) }
func (l *listing) Less(i, j int) bool { return l.namespaces[i].Name < l.namespaces[j].Name }
func (l *listing) Swap(i, j int) {
	l.namespaces[i], l.namespaces[j] = l.namespaces[j], l.namespaces[i]
	l.orders[i], l.orders[j] = l.orders[j], l.orders[i]
}

// parseOrder reads a resource version. Kubernetes promises no more than that versions of one resource compare as
// numbers; 0 and no version mean "any" in a request and are never a state.
func parseOrder(version string) (uint64, error) {
	order, err := strconv.ParseUint(version, 10, 64)
	if err != nil || order == 0 || strconv.FormatUint(order, 10) != version {
		return 0, malformed("the resource version %.40q is not a positive number, so nothing tells which of two states is newer", version)
	}
	return order, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
}

// decodeList reads a PartialObjectMetadataList in Kubernetes' protobuf form while it arrives: four bytes, then a
// runtime.Unknown with the type and the list. Field numbers are those of apimachinery's generated.proto. An error of
// the reader is returned as it is.
func decodeList(body io.Reader) (listing, error) {
	w := &wire{in: bufio.NewReaderSize(body, 64<<10), left: maxBody}
	var head [4]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return listing{}, cutShort(err)
	}
	if string(head[:]) != "k8s\x00" {
		return listing{}, malformed("it is not in Kubernetes' protobuf form")
	}
	d := &listDecoder{wire: w}
	if err := w.fields(true, d.envelope); err != nil {
		return listing{}, err
	}
	return d.finish()
}

// listDecoder holds what was read so far.
type listDecoder struct {
	*wire
	listing
	typed, listed bool
	version       string
	partial       bool
	item, joined  []byte // reused
}

func (d *listDecoder) envelope(field protowire.Number, size int64) error {
	switch {
	case field == 1:
		meta, err := d.bytes(nil, size, maxHead)
		if err != nil {
			return err
		}
		var version, name string
		err = eachField(meta, func(field protowire.Number, value []byte) error {
			switch int(field) {
			case 1:
				version = string(value)
			case 2:
				name = string(value)
			}
			return nil
		})
		if err == nil && (version != "meta.k8s.io/v1" || name != "PartialObjectMetadataList") {
			err = malformed("it is a %.40q of %.40q, not a list of metadata", name, version)
		}
		d.typed = true
		return err
	case field == 2 && d.typed && !d.listed:
		d.listed = true
		after := d.left - size
		d.left = size
		err := d.fields(false, d.list)
		d.left = after
		return err
	case field == 2:
		return malformed("its parts are in an unknown order")
	case field == 3 && size > 0:
		return malformed("it has an encoding inside")
	default:
		return d.skip(size)
	}
}

func (d *listDecoder) list(field protowire.Number, size int64) error {
	switch int(field) {
	case 1:
		meta, err := d.bytes(nil, size, maxHead)
		if err != nil {
			return err
		}
		return eachField(meta, func(field protowire.Number, value []byte) error {
			switch int(field) {
			case 2:
				d.version = string(value)
			case 3, 5: // continue, shardInfo
				d.partial = d.partial || len(value) > 0
			}
			return nil
		})
	case 2:
		if len(d.namespaces) == maxNamespaces {
			return malformed("it has more than %d namespaces: use a selector that selects fewer", maxNamespaces)
		}
		item, err := d.bytes(d.item[:0], size, maxItem)
		if err != nil {
			return err
		}
		d.item = item
		return d.add(item)
	default:
		return d.skip(size)
	}
}

// add reads one namespace out of its PartialObjectMetadata.
func (d *listDecoder) add(item []byte) error {
	var name, uid, version []byte
	terminating := false
	err := eachField(item, func(field protowire.Number, meta []byte) error {
		if field != 1 {
			return nil
		}
		return eachField(meta, func(field protowire.Number, value []byte) error {
			switch int(field) {
			case 1:
				name = value
			case 5:
				uid = value
			case 6:
				version = value
			case 9: // deletionTimestamp
				terminating = true
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	if len(name) == 0 {
		return malformed("one of its namespaces has no name")
	}
	order, err := parseOrder(string(version))
	if err != nil {
		return err
	}
	d.joined = append(append(d.joined[:0], name...), uid...)
	both := string(d.joined) // one allocation for two strings
	d.namespaces = append(d.namespaces, allowlist.Candidate{Name: both[:len(name)], UID: both[len(name):], Terminating: terminating})
	d.orders = append(d.orders, order)
	return nil
}

// finish checks the whole.
func (d *listDecoder) finish() (listing, error) {
	if !d.listed {
		return listing{}, malformed("it has no list")
	}
	if d.partial {
		return listing{}, malformed("it is a part of the list, and the whole was asked for")
	}
	l := &d.listing
	order, err := parseOrder(d.version)
	if err != nil {
		return listing{}, err
	}
	l.order = order
	if !sort.IsSorted(l) {
		sort.Stable(l)
	}
	for i := 1; i < len(l.namespaces); i++ {
		if l.namespaces[i-1].Name == l.namespaces[i].Name {
			return listing{}, malformed("it has the namespace %.64q twice", l.namespaces[i].Name)
		}
	}
	return *l, nil
}

// search finds a name in sorted candidates.
func search(sorted []allowlist.Candidate, name string) (int, bool) {
	return slices.BinarySearchFunc(sorted, name, func(c allowlist.Candidate, name string) int { return strings.Compare(c.Name, name) })
}
