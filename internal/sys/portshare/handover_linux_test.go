// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"encoding/json"
	"math"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ephemeral is a keeper that one member meets and that does as the test says.
type ephemeral struct {
	t    *testing.T
	ln   *net.UnixListener
	conn *net.UnixConn
	lock lockFile
}

func newEphemeral(t *testing.T, dir string) *ephemeral {
	t.Helper()
	p, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := openLock(p.lock)
	if err != nil || !lock.try(keeperByte) {
		t.Fatalf("no keeper's lock: %v", err)
	}
	t.Cleanup(func() { lock.close() })
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: p.socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return &ephemeral{t: t, ln: ln, lock: lock}
}

// want reads the next frame, which is of a kind.
func (e *ephemeral) want(k kind) (f frame) {
	e.t.Helper()
	b := make([]byte, maxFrameBytes)
	n, err := e.conn.Read(b)
	if err == nil {
		err = json.Unmarshal(b[:n], &f)
	}
	if err != nil || f.Kind != k {
		e.t.Fatalf("got %+v, %v, not a %v", f, err, k)
	}
	return f
}

func (e *ephemeral) send(f frame) {
	e.t.Helper()
	b, err := json.Marshal(f)
	if err == nil {
		_, err = e.conn.Write(b)
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// welcome takes the member in and returns its first message.
func (e *ephemeral) welcome(first kind) (claim frame) {
	e.t.Helper()
	var err error
	if e.conn, err = e.ln.AcceptUnix(); err != nil {
		e.t.Fatal(err)
	}
	claim = e.want(first)
	b, err := json.Marshal(frame{Kind: kindWelcome, Slot: 7})
	if err != nil {
		e.t.Fatal(err)
	}
	fd := int(e.lock.f.Fd()) // any
	if _, _, err := e.conn.WriteMsgUnix(b, unix.UnixRights(fd), nil); err != nil {
		e.t.Fatal(err)
	}
	return claim
}

// joinEphemeral returns an ephemeral keeper and its member.
func joinEphemeral(t *testing.T) (*ephemeral, Member) {
	t.Helper()
	dir := t.TempDir()
	e := newEphemeral(t, dir)
	joined := make(chan Member, 1)
	go func() {
		m, err := Join(dir, Options{MADRules: testRules(dir), OnMAD: func(MAD) {}})
		if err != nil {
			t.Error(err)
		}
		joined <- m
	}()
	e.welcome(kindJoin)
	m := <-joined
	if m == nil {
		t.FailNow()
	}
	t.Cleanup(func() { m.Close() })
	return e, m
}

// TestNextKeeperContinuesTheCount has a member's claim tell the next keeper how many datagrams were
// dropped so far, and that keeper count on from there.
func TestNextKeeperContinuesTheCount(t *testing.T) {
	e, m := joinEphemeral(t)
	asked := make(chan uint64, 1)
	go func() { asked <- m.KeeperDropped() }()
	e.send(frame{Kind: kindAnswer, ID: e.want(kindDropped).ID, Count: 5})
	<-asked // not 5 if this process was held up for longer than askPatience
	e.conn.Close()
	claim := e.welcome(kindClaim)
	if claim.Count != 5 {
		t.Errorf("the next keeper is told of %d, not of 5", claim.Count)
	}
	e.conn.Close()

	k := &keeper{listeners: map[string]int{}, peers: map[int]*link{}}
	for _, told := range []uint64{5, 3, 5} { // members know of more and of fewer
		k.admit(nil, frame{Kind: kindClaim, Slot: 1, Count: told})
	}
	k.lost.Add(1)
	if a, _, err := k.request(1, frame{Kind: kindDropped}); a.Count != 6 || err != nil {
		t.Errorf("%d are counted, not 6: %v", a.Count, err)
	}
}

// follows waits until a member follows its keeper, and asks it.
func follows(m Member) {
	own := m.(*member)
	own.mu.Lock()
	defer own.mu.Unlock()
	for own.role != following {
		own.change.Wait()
	}
}

// TestQuestionEndsWithItsKeeper has a keeper go instead of answering for its count. The member
// does not wait until its patience is over.
func TestQuestionEndsWithItsKeeper(t *testing.T) {
	e, m := joinEphemeral(t)
	least := time.Duration(math.MaxInt64)
	for try := 0; try < 20 && least >= askPatience; try++ { // a busy machine may hold the test up
		took := make(chan time.Duration, 1)
		go func() {
			begun := time.Now()
			m.KeeperDropped()
			took <- time.Since(begun)
		}()
		e.want(kindDropped)
		e.conn.Close()
		least = min(least, <-took)
		e.welcome(kindClaim)
		follows(m)
	}
	if least >= askPatience {
		t.Errorf("the question took %v at least", least)
	}
	e.conn.Close()
}

// A keeper that leaves right after it has said yes to a listener: the next one
// hears of it, or connection requests would be refused for good.
func TestListenerIsNotLostWithItsKeeper(t *testing.T) {
	e, m := joinEphemeral(t)
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		done := make(chan error, 1)
		go func() { done <- m.Listen(key) }()
		f := e.want(kindListen)
		e.send(frame{Kind: kindAnswer, ID: f.ID})
		e.conn.Close()
		if claim := e.welcome(kindClaim); !slices.Contains(claim.Keys, key) {
			t.Errorf("the next keeper is told of %q, not of %q", claim.Keys, key)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	e.conn.Close()
}
