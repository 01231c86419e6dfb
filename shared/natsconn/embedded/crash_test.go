package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/portcullis-mesh/portcullis/shared/natsconn/embedded"
)

// holdStoreEnv makes the test binary a process that serves a store until it is killed.
const holdStoreEnv = "EMBEDDED_TEST_HOLD_STORE"

func holdStore(dir string) {
	server, err := embedded.New(embedded.Config{StoreDir: dir, Listen: "127.0.0.1:0", MaxStore: 64 << 20}, zerolog.Nop())
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	go func() {
		<-server.Listening()
		fmt.Println(server.ClientURL())
	}()
	fmt.Println("error:", server.Run(context.Background()))
}

// TestKilledServerFreesTheStoreAndLosesNothing kills a process that serves a store and has acknowledged a write.
func TestKilledServerFreesTheStoreAndLosesNothing(t *testing.T) {
	cfg := valid(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), holdStoreEnv+"="+cfg.StoreDir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "nats://") {
		_ = child.Process.Kill()
		t.Fatalf("child said %q, %v", line, err)
	}
	nc, js := dial(t, strings.TrimSpace(line))
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "probe"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.PutString(t.Context(), "key", "value"); err != nil {
		t.Fatal(err)
	}
	nc.Close()

	rival, err := embedded.New(cfg, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if err := rival.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another server is using it") {
		t.Errorf("a rival of another process: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // the error is the kill

	_, js = dial(t, start(t, cfg).ClientURL())
	if kv, err = js.KeyValue(t.Context(), "probe"); err != nil {
		t.Fatal(err)
	}
	if entry, err := kv.Get(t.Context(), "key"); err != nil || string(entry.Value()) != "value" {
		t.Errorf("after the kill: %v, %v", entry, err)
	}
}
