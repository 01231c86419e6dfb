// Command probe is what test Pods run: a small HTTP server that answers for the Pod what the network
// and the file system look like from inside.
//
//	GET /dial?addr=HOST:PORT  200 when a TCP connection opens within two seconds, else 504 with why
//	GET /file?path=PATH       the file's bytes (at most 64 KiB), or 404 with why
//	GET /                     200
//
// It serves on :8080. Test equipment: it gives away every file that its user may read.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const (
	dialLimit = 2 * time.Second
	fileLimit = 64 << 10
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /dial", dial)
	mux.HandleFunc("GET /file", file)
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func dial(w http.ResponseWriter, r *http.Request) {
	conn, err := net.DialTimeout("tcp", r.URL.Query().Get("addr"), dialLimit)
	if err != nil {
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
		return
	}
	_ = conn.Close()
}

func file(w http.ResponseWriter, r *http.Request) {
	f, err := os.Open(r.URL.Query().Get("path"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = io.Copy(w, io.LimitReader(f, fileLimit))
}
