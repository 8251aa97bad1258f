// SPDX-License-Identifier: BSD-2-Clause

package backend

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"verbena/internal/ntb/channel"
	"verbena/internal/ntb/rdma"
)

const (
	seedVar  = "VERBENA_BRIDGE_SEED"
	killsVar = "VERBENA_BRIDGE_KILLS"
)

// number is that of a variable, if it is set.
func number(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func freePort(t *testing.T) string {
	// An address of its own: nobody takes the port between two servers.
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(64)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))}), 0)
	l, err := listenOwnTCP(at, windowBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return netip.AddrPortFrom(at.Addr(), l.port(t)).String()
}

// TestKilledPeer kills the server with SIGKILL at any moment, in its start as in the middle of
// transfers both ways, again and again. All posted work ends, nothing is written where nobody asked
// for it, and nothing that a dead server wrote comes after it. The next one is served as the first
// was.
func TestKilledPeer(t *testing.T) {
	dir := t.TempDir()
	path, port, file := filepath.Join(dir, "link"), freePort(t), filepath.Join(dir, "file")
	if err := os.WriteFile(file, make([]byte, 2*windowBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		server, client string
		inWindow       string
		kills          int
	}{
		{"shm", "shm:s:" + path, "shm:c:" + path, "", 200},
		{"shm, memory in the windows", "shm:s:" + path, "shm:c:" + path, "1", 200},
		{"shm, the server dials", "shm:c:" + path, "shm:s:" + path, "1", 50},
		{"tcp", "s:" + port, "c:" + port, "", 50},
		{"tcp, memory in the windows", "s:" + port, "c:" + port, "1", 50},
		{"map", "map:0:" + file, "map:1:" + file, "", 6}, // where only the heartbeat shows that the peer is dead
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(windowVar, c.inWindow)
			kills := c.kills
			if testing.Short() {
				kills = min(kills, 10)
				t.Logf("%d of %d kills, as -short wants it", kills, c.kills)
			}
			killMany(t, c.server, c.client, number(t, killsVar, kills))
		})
	}
}

func killMany(t *testing.T, server, where string, kills int) {
	seed := number(t, seedVar, int(rand.Uint32()))
	c := newClient(t, where, uint64(seed))
	defer func() {
		if t.Failed() {
			t.Logf("server %d; the moments were those of %s=%d", c.life, seedVar, seed)
		}
		if c.link != nil {
			c.unplug()
		}
		c.back.close()
	}()
	silent := strings.HasPrefix(where, "map:")
	var began resources
	for c.life = range kills + 1 {
		cmd := startServer(t, server, c.life)
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		c.gone = func() bool {
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			<-ended
		})
		c.rkey, c.far = 0, nil
		if c.life%2 == 0 { // works as on the first day, both ways
			for from := c.done; c.done < from+3 || c.given() == 0; {
				if c.gone() {
					t.Fatalf("the server ended by itself: %v", cmd.ProcessState)
				}
				if c.rkey != 0 || c.hello() {
					c.round()
				}
			}
			if r := using(t); c.life == 0 {
				began = r
			} else if r != began {
				t.Fatalf("there are %+v, and were %+v with the first server", r, began)
			}
		}
		if c.life == kills {
			break
		}
		kill := time.AfterFunc(time.Duration(c.rnd.IntN(int(15*time.Millisecond))), func() { cmd.Process.Kill() })
		for !c.gone() {
			switch {
			case c.rkey == 0:
				c.hello()
			case silent && c.life%4 != 0:
				<-ended // the next steps notice it
			default:
				c.round()
			}
		}
		kill.Stop()
		if cmd.ProcessState.Exited() {
			t.Fatalf("the server ended by itself: %v", cmd.ProcessState)
		}
		c.judge()
	}
	up := c.node.Channel().Count[channel.LinkUps]
	if placed := c.q.Count[rdma.SentPlaced]; (placed > 0) != (os.Getenv(windowVar) != "") {
		t.Errorf("%d bytes went straight to their place", placed)
	}
	t.Logf("%d kills, the link came up %d times, %d rounds, no wait longer than %v", kills, up, c.done, c.took.Round(time.Millisecond))
	if up < uint64(kills/2+1) {
		t.Errorf("the link came up %d times with %d servers", up, kills+1)
	}
}

// resources counts the descriptors and mappings that a link takes of this process.
type resources struct{ descriptors, mappings int }

func using(t *testing.T) (r resources) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	r.descriptors = len(list)
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	r.mappings = strings.Count(string(maps), "verbena-ntb") + strings.Count(string(maps), "/file")
	return r
}
