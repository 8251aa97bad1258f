// SPDX-License-Identifier: BSD-2-Clause

package examples

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestKV(t *testing.T) {
	_, addr := serve(t, "kv")
	kv := func(status int, args ...string) string {
		t.Helper()
		return run(t, status, "kv", append([]string{"-connect", addr}, args...)...)
	}
	same(t, "put", kv(0, "put", "colour", "green"), "")
	same(t, "get", kv(0, "get", "colour"), "green\n")
	same(t, "put again", kv(0, "put", "colour", "blue"), "")
	same(t, "get again", kv(0, "get", "colour"), "blue\n")
	same(t, "no value", kv(0, "put", "nothing", ""), "")
	same(t, "get no value", kv(0, "get", "nothing"), "\n")
	same(t, "get another", kv(1, "get", "shape"), "no such key\n")
	same(t, "put too much", kv(1, "put", "long", strings.Repeat("x", 119)), "key and value must have 1 to 122 bytes together\n")
}

func TestFileCopy(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	p, addr := serve(t, "filecopy", "-dir", to)
	for name, size := range map[string]int{"large": 10<<20 + 1, "block": 1 << 20, "empty": 0} {
		want := make([]byte, size)
		rand.NewChaCha8([32]byte{}).Read(want)
		if err := os.WriteFile(filepath.Join(from, name), want, 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, 0, "filecopy", "-connect", addr, filepath.Join(from, name))
		p.want("received " + filepath.Join(to, name))
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d other bytes than the %d of the file", name, len(got), len(want))
		}
	}
	// A file that cannot be kept is refused, and nothing of it is left.
	if err := os.Mkdir(filepath.Join(to, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "folder"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, 1, "filecopy", "-connect", addr, filepath.Join(from, "folder")); !strings.HasPrefix(out, "the receiver: rename") {
		t.Errorf("refused: %q", out)
	}
	if left, err := filepath.Glob(filepath.Join(to, ".filecopy*")); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestManyClients(t *testing.T) {
	_, addr := serve(t, "manyclients")
	same(t, "clients", run(t, 0, "manyclients", "-connect", addr, "-clients", "100"), "100 clients are connected\n100 clients have their answers\n")
	// Clients that are killed take no buffer with them.
	for range 3 {
		killed := start(t, "manyclients", "-connect", addr, "-clients", "1000")
		killed.want("100 clients are connected")
		killed.signal(os.Kill)
		killed.end(-1)
	}
	same(t, "clients after others were killed", run(t, 0, "manyclients", "-connect", addr, "-clients", "10"), "10 clients have their answers\n")
}

func TestWait(t *testing.T) {
	began := time.Now()
	receiver, addr := serve(t, "wait")
	run(t, 0, "wait", "-connect", addr, "-every", "100ms", "-count", "5")
	same(t, "received", receiver.end(0), "listening on "+addr+"\nmessage 0\nmessage 1\nmessage 2\nmessage 3\nmessage 4\nthe peer has disconnected\n")
	used := receiver.cmd.ProcessState.UserTime() + receiver.cmd.ProcessState.SystemTime()
	if elapsed := time.Since(began); elapsed < 500*time.Millisecond || used > elapsed/2 {
		t.Errorf("the receiver used %v of processor time in %v", used, elapsed)
	}
}

func TestWaitEndsWithItsPeer(t *testing.T) {
	receiver, addr := serve(t, "wait")
	sender := start(t, "wait", "-connect", addr, "-every", "1ms", "-count", "1000000")
	receiver.want("message 3")
	sender.signal(os.Kill)
	if out := receiver.end(0); !strings.HasSuffix(out, "\nthe peer has disconnected\n") {
		t.Errorf("received: %q", out)
	}

	receiver, addr = serve(t, "wait")
	sender = start(t, "wait", "-connect", addr, "-every", "1ms", "-count", "1000000")
	receiver.want("message 3")
	receiver.signal(os.Kill)
	receiver.end(-1)
	sender.end(1)
}

func TestWeb(t *testing.T) {
	dir := t.TempDir()
	want := strings.Repeat("over RDMA\n", 100_000)
	if err := os.WriteFile(filepath.Join(dir, "page"), []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"roce", "trp"} {
		_, addr := serve(t, "web", "-dir", dir, "-network", network)
		web := func(status int, name string) string {
			return run(t, status, "web", "-network", network, "-connect", addr, name)
		}
		if got := web(0, "page"); got != want {
			t.Errorf("%s: %d bytes of %d", network, len(got), len(want))
		}
		same(t, "no file", web(1, "nothing"), "nothing: 404 Not Found\n")
	}
	cert, key := certificate(t, dir)
	_, addr := serve(t, "web", "-dir", dir, "-cert", cert, "-key", key)
	if got := run(t, 0, "web", "-connect", addr, "-cert", cert, "page"); got != want {
		t.Errorf("encrypted: %d bytes of %d", len(got), len(want))
	}
	same(t, "a key as certificate", run(t, 1, "web", "-connect", addr, "-cert", key, "page"), key+": no certificate\n")
	if out := run(t, 1, "web", "-connect", addr, "page"); !strings.Contains(out, "400 Bad Request") {
		t.Errorf("plain, from a server of HTTPS: %q", out)
	}
}

// certificate makes a certificate of the loopback address, and its key.
func certificate(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	made := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	public, err := x509.CreateCertificate(crand.Reader, &made, &made, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: public}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

func TestRPC(t *testing.T) {
	for _, network := range []string{"roce", "trp"} {
		_, addr := serve(t, "rpc", "-network", network)
		same(t, "counts", run(t, 0, "rpc", "-network", network, "-connect", addr, "to be or", "not to be"), "be 2\nnot 1\nor 1\nto 2\n")
	}
}

func TestTwoProcesses(t *testing.T) {
	same(t, "parent", run(t, 0, "twoprocesses"), "the child's memory: \"written by the parent\"\n")
	// Standard input is empty here: a child without a parent ends.
	if out := run(t, 1, "twoprocesses", "-child"); !strings.HasSuffix(out, "\nEOF\n") {
		t.Errorf("a child alone: %q", out)
	}
}

func TestMulticast(t *testing.T) {
	members := []*process{start(t, "multicast"), start(t, "multicast")}
	for _, m := range members {
		m.want("member of 239.1.2.3")
	}
	same(t, "answers", run(t, 0, "multicast", "-send", "hello", "-answers", "2"), "5 bytes received\n5 bytes received\n")
	for _, m := range members {
		m.want("hello")
	}
	members[0].signal(os.Kill)
	members[0].end(-1)
	out := run(t, 1, "multicast", "-send", "hello", "-answers", "2", "-wait", "100ms")
	same(t, "with one killed", out, "5 bytes received\n1 of 2 answers: context deadline exceeded\n")
	members[1].want("hello")
}
