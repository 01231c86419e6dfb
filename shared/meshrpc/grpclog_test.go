package meshrpc

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/meshrpc/meshtest"
)

// grpc's file provider prints the files when they do not match. The logger of this
// test binary is the one that daemons use.
func TestKeysDoNotReachTheLog(t *testing.T) {
	ca := meshtest.NewCA(t)
	files := meshtest.NewFiles(t, ca, "tokenauth")
	m := join(t, configFor(files), "tokenauth").running(t)
	content := files.Read(t)
	content.Key = ca.Issue(t, "tokenauth").Key
	files.Replace(t, content)
	eventually(t, "grpc has looked at the files", func() bool {
		return testutil.ToFloat64(m.metrics.looks.WithLabelValues("bad")) >= 3
	})
	secret := strings.Split(string(content.Key), "\n")[1]
	for where, text := range map[string]string{"grpc's log": grpcOutput.String(), "our log": m.log.String()} {
		if strings.Contains(text, secret) || strings.Contains(text, "PRIVATE KEY") {
			t.Errorf("%s holds the key", where)
		}
	}
}

func TestGRPCLog(t *testing.T) {
	const key = "-----BEGIN PRIVATE KEY-----\nAAAA"
	var out safeBuffer
	log := GRPCLog(zerolog.New(&out))
	for name, write := range map[string]func(){
		"component":        func() { log.Warningln("[pemfile]", "tls.X509KeyPair(\"hello\") failed") },
		"key in arguments": func() { log.Error("[core]", key) },
		"key in a format":  func() { log.Infof("%q", key) },
		"key at every level": func() {
			log.Info(key)
			log.Infoln(key)
			log.Warning(key)
			log.Warningf(key)
			log.Errorln(key)
			log.Errorf(key)
		},
		"fatal": func() { log.Fatal(key); log.Fatalf(key); log.Fatalln(key) },
	} {
		write()
		if got := out.String(); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for want, write := range map[string]func(){
		`{"level":"trace","message":"a"}`:   func() { log.Info("a") },
		`{"level":"debug","message":"a b"}`: func() { log.Warningln("a", "b") },
		`{"level":"warn","message":"a 1"}`:  func() { log.Errorf("a %d", 1) },
		`{"level":"error","message":"a"}`:   func() { log.Fatal("a") },
	} {
		before := out.String()
		write()
		if got := strings.TrimSpace(strings.TrimPrefix(out.String(), before)); got != want {
			t.Errorf("wrote %s, want %s", got, want)
		}
	}
	if log.V(0) {
		t.Error("verbose messages are on")
	}
}
