// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/verbs"
)

// logLines keeps the lines of a logger.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// has reports whether a line has all the words.
func (l *logLines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// Events of connections, refusals at both ends, and failures of queue pairs are lines. They name
// the peer and the reason, over every kind of devices.
func TestConnectionsAreLogged(t *testing.T) {
	for _, k := range append([]kindUnderTest{{Kind: RoCE, addrs: []string{"127.0.0.1"}}}, kinds...) {
		t.Run(string(k.Kind), func(t *testing.T) {
			if k.join != nil {
				k.join(t)
			}
			l := logged(t)
			newFabric(t).alone()
			logsConnections(t, k, l)
		})
	}
}

func logsConnections(t *testing.T, k kindUnderTest, l *logLines) {
	ctx := within(t)
	o := &Options{Kind: k.Kind}
	server, err := ListenAddr(netip.AddrPortFrom(k.at(), 0).String(), o)
	check(t, err)
	port := server.Addr().String()
	failed := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, port, o)
		failed <- err
	}()
	r, err := server.Request(ctx)
	check(t, err)
	check(t, r.Reject(nil))
	if err := <-failed; !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused with %v", err)
	}
	client, accepted := connected(t, ctx, server, o)
	mr, err := client.RegMR(make([]byte, 8), ib.AccessLocalWrite)
	check(t, err)
	_, err = client.QP().PostSend(verbs.SendWR{Opcode: ib.WRRDMARead, SGList: []ib.SGE{mr.SGE(0, 8)}, RKey: 0x5a5a})
	check(t, err)
	wc := make([]ib.WC, 1)
	if _, err := client.SendCQ.Wait(ctx, wc); err != nil || wc[0].Status == ib.WCSuccess {
		t.Errorf("a READ by a wrong key: %v, %v", wc[0].Status, err)
	}
	check(t, client.Close())
	check(t, accepted.Wait(ctx))
	check(t, accepted.Close())
	check(t, server.Close())
	if !k.silent {
		if _, err := Dial(ctx, port, o); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: %v", err)
		}
	}
	event, peer := `msg="connection event"`, " peer="+port
	for _, words := range [][]string{
		{"level=INFO", event, "type=RDMA_CM_EVENT_CONNECT_REQUEST", " local=" + port, " peer="},
		{"level=INFO", event, "type=rdma_reject", " device=", " local=" + port, " peer="},
		{"level=WARN", event, "type=RDMA_CM_EVENT_REJECTED", " device=", " qpn=0x", peer, "reason=", "has rejected the connection"},
		{"level=INFO", event, "type=RDMA_CM_EVENT_ESTABLISHED", " qpn=0x", peer},
		{"level=INFO", event, "type=RDMA_CM_EVENT_DISCONNECTED", " qpn=0x", " peer="},
		{"level=WARN", `msg="asynchronous event"`, " device=", "access violation", " qpn=0x", " peer", " reason="},
	} {
		if !l.has(words...) {
			t.Errorf("no line has %q", words)
		}
	}
	if !k.silent && !l.has("level=WARN", event, "type=RDMA_CM_EVENT_REJECTED", peer, "nobody listens at "+port) {
		t.Error("no line says that nobody listens")
	}
}

// connected returns both ends of a connection.
func connected(t *testing.T, ctx context.Context, l *Listener, o *Options) (client, server *Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err := Dial(ctx, l.Addr().String(), o)
	check(t, err)
	if server = <-accepted; server == nil {
		t.FailNow()
	}
	return client, server
}
