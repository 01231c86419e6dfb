package exactjson_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mesh/portcullis/test/companions/exactjson"
)

type inner struct {
	Name string            `json:"name"`
	Free map[string]string `json:"free"`
}

type outer struct {
	ID    string  `json:"id"`
	Count uint64  `json:"count"`
	Maybe *string `json:"maybe"`
	List  []inner `json:"list"`
}

const valid = `{"id":"a","count":1,"maybe":null,"list":[{"name":"n","free":{"x":"y"}}]}`

func TestDecode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		old, replacement string // made once in the valid document
		want             string // in the error; "" for none
	}{
		"valid":                  {"", "", ""},
		"spaces and other order": {`"id":"a","count":1`, `"count": 1 , "id":"a"`, ""},
		"a value for maybe":      {`null`, `"m"`, ""},
		"an empty list":          {`[{"name":"n","free":{"x":"y"}}]`, `[]`, ""},
		"unknown":                {`"count":1`, `"count":1,"more":2`, "more"},
		"unknown inside":         {`"name":"n"`, `"name":"n","more":2`, "more"},
		"missing":                {`"count":1,`, ``, "count: missing"},
		"missing inside":         {`"name":"n",`, ``, "list[].name: missing"},
		"missing optional":       {`"maybe":null,`, ``, "maybe: missing"},
		"other case":             {`"count"`, `"Count"`, "Count: unknown"},
		"other case inside":      {`"name"`, `"NAME"`, "list[].NAME: unknown"},
		"twice":                  {`"count":1`, `"count":1,"count":1`, "count: given twice"},
		"twice in a free map":    {`{"x":"y"}`, `{"x":"y","x":"z"}`, "list[].free.x: given twice"},
		"null":                   {`"id":"a"`, `"id":null`, "id: null"},
		"null inside":            {`"name":"n"`, `"name":null`, "list[].name: null"},
		"another type":           {`"count":1`, `"count":"1"`, "count"},
		"a fraction":             {`"count":1`, `"count":1.5`, "count"},
		"negative":               {`"count":1`, `"count":-1`, "count"},
		"another value after":    {`]}`, `]} {}`, "more than one"},
		"cut":                    {`]}`, ``, "EOF"},
		"deep":                   {`null`, strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := strings.Replace(valid, tc.old, tc.replacement, 1)
			err := exactjson.Decode([]byte(document), new(outer))
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("%s is refused: %v", document, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("%s: error %v, want one with %q", document, err, tc.want)
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"sorted":    {`{"b":1,"a":{"d":[2,1],"c":null}}`, `{"a":{"c":null,"d":[2,1]},"b":1}`},
		"no spaces": {" { \"a\" : [ 1 , 2 ] }\n", `{"a":[1,2]}`},
		"numbers":   {`[1.0,12345678901234567890,1e3]`, `[1.0,12345678901234567890,1e3]`},
		"no HTML":   {`"<&>"`, `"<&>"`},
		"escapes":   {`"\u0041"`, `"A"`},
		"a word":    {`true`, `true`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := exactjson.Canonical([]byte(tc.in))
			if err != nil || string(got) != tc.want {
				t.Fatalf("canonical form of %s = %s, %v; want %s", tc.in, got, err, tc.want)
			}
		})
	}
}

// FuzzCanonical: a canonical form is its own, and says the same in the same words.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte(`{"b":[1,{"a":null}],"a":"\ud800"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		once, err := exactjson.Canonical(in)
		if err != nil {
			return
		}
		twice, err := exactjson.Canonical(once)
		if err != nil || string(twice) != string(once) {
			t.Fatalf("%q -> %q -> %q, %v", in, once, twice, err)
		}
	})
}
