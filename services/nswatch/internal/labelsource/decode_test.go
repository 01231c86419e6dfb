package labelsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"

	"github.com/portcullis-mesh/portcullis/shared/allowlist"
)

// metadataList is a list as an API server holds it.
func metadataList(version string, items ...metav1.PartialObjectMetadata) *metav1.PartialObjectMetadataList {
	return &metav1.PartialObjectMetadataList{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version},
		Items:    items,
	}
}

func metadataOf(name string, version uint64, terminating bool) metav1.PartialObjectMetadata {
	m := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), ResourceVersion: fmt.Sprint(version), Generation: 7,
			CreationTimestamp: metav1.Unix(1_700_000_000, 0),
			Labels:            map[string]string{"kubernetes.io/metadata.name": name, "a": "b"},
			Annotations:       map[string]string{"note": strings.Repeat("x", 300)},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}},
		},
	}
	if terminating {
		now := metav1.NewTime(time.Unix(1_700_000_100, 0))
		m.DeletionTimestamp = &now
		m.Finalizers = []string{"example.com/hold"}
	}
	return m
}

// encode writes an object as the API server does.
func encode(t testing.TB, object runtime.Object) []byte {
	t.Helper()
	scheme := runtime.NewScheme()
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(object, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDecodesWhatAnAPIServerEncodes(t *testing.T) {
	body := encode(t, metadataList("900", metadataOf("a", 12, false), metadataOf("b", 900, true), metadataOf("c", 13, false)))
	for name, r := range map[string]io.Reader{
		"at once":      bytes.NewReader(body),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(body)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decodeList(r)
			if err != nil {
				t.Fatal(err)
			}
			want := listing{order: 900, orders: []uint64{12, 900, 13}, namespaces: []allowlist.Candidate{
				{Name: "a", UID: "uid-a"}, {Name: "b", UID: "uid-b", Terminating: true}, {Name: "c", UID: "uid-c"},
			}}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestSortsWhatComesUnsorted(t *testing.T) {
	got, err := decodeList(bytes.NewReader(encode(t, metadataList("9", metadataOf("b", 2, true), metadataOf("a", 1, false)))))
	if err != nil {
		t.Fatal(err)
	}
	if got.namespaces[0].Name != "a" || got.orders[0] != 1 || !got.namespaces[1].Terminating || got.orders[1] != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestRefusesListsThatProveNothing(t *testing.T) {
	type breakage func(l *metav1.PartialObjectMetadataList)
	for _, c := range []struct {
		name   string
		change breakage
		says   string
	}{
		{"version is no number", func(l *metav1.PartialObjectMetadataList) { l.ResourceVersion = "v12" }, `"v12" is not a positive number`},
		{"version is empty", func(l *metav1.PartialObjectMetadataList) { l.ResourceVersion = "" }, `"" is not`},
		{"version is zero", func(l *metav1.PartialObjectMetadataList) { l.ResourceVersion = "0" }, `"0" is not`},
		{"version has a sign", func(l *metav1.PartialObjectMetadataList) { l.ResourceVersion = "+9" }, `"+9" is not`},
		{"version has zeros in front", func(l *metav1.PartialObjectMetadataList) { l.ResourceVersion = "09" }, `"09" is not`},
		{"version is too large", func(l *metav1.PartialObjectMetadataList) { l.ResourceVersion = "18446744073709551616" }, "is not a positive number"},
		{"a page", func(l *metav1.PartialObjectMetadataList) { l.Continue = "token" }, "a part of the list"},
		{"a namespace without a name", func(l *metav1.PartialObjectMetadataList) { l.Items[0].Name = "" }, "has no name"},
		{"a namespace without a version", func(l *metav1.PartialObjectMetadataList) { l.Items[0].ResourceVersion = "" }, "is not a positive number"},
		{"a namespace twice", func(l *metav1.PartialObjectMetadataList) { l.Items[1].Name = "a" }, `"a" twice`},
		{"another kind", func(l *metav1.PartialObjectMetadataList) { l.Kind = "NamespaceList" }, `"NamespaceList"`},
		{"another version of it", func(l *metav1.PartialObjectMetadataList) { l.APIVersion = "v1" }, "not a list of metadata"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := metadataList("9", metadataOf("a", 1, false), metadataOf("b", 2, false))
			c.change(l)
			if _, err := decodeList(bytes.NewReader(encode(t, l))); !errors.Is(err, errMalformed) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %v, want one that says %s", err, c.says)
			}
		})
	}
}

func TestRefusesEveryListThatIsCutShort(t *testing.T) {
	body := encode(t, metadataList("9", metadataOf("a", 1, false), metadataOf("b", 2, true)))
	// The last bytes are the empty contentEncoding and contentType behind the list, which may be missing.
	whole := len(body) - 4
	for n := range whole {
		if l, err := decodeList(bytes.NewReader(body[:n])); !errors.Is(err, errMalformed) {
			t.Fatalf("of %d bytes the first %d give %+v and error %v", len(body), n, l, err)
		}
	}
}

func TestErrorsOfTheConnectionStayWhatTheyAre(t *testing.T) {
	body := encode(t, metadataList("9", metadataOf("a", 1, false)))
	broken := errors.New("connection reset")
	if _, err := decodeList(io.MultiReader(bytes.NewReader(body[:len(body)/2]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

// FuzzDecodeList holds the decoder against apimachinery's own: it takes nothing that the other refuses, and reads the
// same out of it.
func FuzzDecodeList(f *testing.F) {
	f.Add(encode(f, metadataList("900", metadataOf("a", 12, false), metadataOf("b", 900, true))))
	f.Add(encode(f, metadataList("1")))
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("k8s\x00" + strings.Repeat("\xff", 40)))
	f.Add([]byte(`{"kind":"PartialObjectMetadataList"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeList(bytes.NewReader(body))
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("error of nowhere: %v", err)
			}
			return
		}
		var envelope runtime.Unknown
		var want metav1.PartialObjectMetadataList
		if envelope.Unmarshal(body[4:]) != nil || want.Unmarshal(envelope.Raw) != nil {
			return // stricter about parts that are skipped here
		}
		if fmt.Sprint(got.order) != want.ResourceVersion || len(got.namespaces) != len(want.Items) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		for _, item := range want.Items {
			i, found := search(got.namespaces, item.Name)
			if !found || got.namespaces[i] != (allowlist.Candidate{Name: item.Name, UID: string(item.UID), Terminating: item.DeletionTimestamp != nil}) {
				t.Fatalf("got %+v, want %+v", got, item)
			}
		}
	})
}

// BenchmarkDecodeList is a relist of 10 000 namespaces.
func BenchmarkDecodeList(b *testing.B) {
	var items []metav1.PartialObjectMetadata
	for i := range 10_000 {
		items = append(items, metadataOf(fmt.Sprintf("namespace-%05d", i), 5, false))
	}
	body := encode(b, metadataList("9", items...))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeList(bytes.NewReader(body)); err != nil {
			b.Fatal(err)
		}
	}
}
