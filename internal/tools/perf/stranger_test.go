// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"verbena/internal/testkit/loopback"
	"verbena/internal/tools/cli"
)

// opened returns the error that a side gives for its peer's first message. The peer says words and
// hangs up, or says nothing.
func opened(t *testing.T, words string) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		go func() {
			if words != "" {
				io.WriteString(there, words)
				there.Close()
			}
		}()
		_, err = newControl(here).first(kindHello)
	})
	return err
}

func TestPeerIsNamed(t *testing.T) {
	for words, want := range map[string]string{
		"6.10" + strings.Repeat("\x00", 12): "the peer is a program of perftest, such as ib_write_bw (it says version 6.10)",
		"SSH-2.0-OpenSSH_9.2\r\n":           `no 'verbena perf', it says "SSH-2.0-OpenSSH_"`,
		"\x16\x03":                          "no 'verbena perf'",
		`{"kind":"bye"}` + "\n":             `sent "bye" where "hello" was due`,
		"{}\n":                              `unknown message ""`,
	} {
		if err := opened(t, words); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", words, err, want)
		}
	}
	if err := opened(t, ""); err != cli.ErrSilent {
		t.Errorf("a peer that is silent: %v", err)
	}
}

// TestServerEndsWithPerftest speaks as ib_write_bw does, which reads as many bytes as it
// has sent, and ends if the version in them is none, or old.
func TestServerEndsWithPerftest(t *testing.T) {
	o, err := parse(t, "write", "bw", "-d "+loopback.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	o.port = 0
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	o.listening = func(a net.Addr) { listening <- a }
	go func() { done <- runServer(t.Context(), o, io.Discard, io.Discard) }()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", (<-listening).(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := make([]byte, maxGreetingBytes)
	copy(version, "6.06")
	if _, err := conn.Write(version); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, version); err != nil || version[0] >= '0' && version[0] <= '9' {
		t.Errorf("answer %q, %v", version, err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "perftest") {
		t.Errorf("the server says %v", err)
	}
}
