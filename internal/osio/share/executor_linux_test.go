package share

import (
	"os"
	"testing"
	"time"

	"verbena/internal/osio/udp"
)

// ownExecutor has a child of a test start the test's program as its executor.
const ownExecutor = "VERBENA_SHARE_EXECUTOR"

func init() {
	ExecutorPath = os.Executable
	if os.Getenv(ownExecutor) == "" {
		ExecutorPath = func() (string, error) { return "", os.ErrNotExist } // none is installed
	}
}

// executorMain is the test's program as the command verbena.
func executorMain(args []string) {
	if args[0] == Detached {
		Execute(args[1])
		return
	}
	Detach(args[0])
}

// awaitExecutor waits until there is an executor, or none.
func (n *network) awaitExecutor(t *testing.T, there bool) {
	t.Helper()
	ps, err := openDir(n.dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := openLock(ps.lock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.close()
	until := time.Now().Add(10 * time.Second)
	for p := (pause{}); lock.held(executorByte, 1) != there; p.wait() {
		if time.Now().After(until) {
			t.Fatalf("there is an executor: %v", !there)
		}
	}
}

func TestLastWillHasAnExecutor(t *testing.T) {
	t.Setenv(ownExecutor, "1")
	n := newNetwork(t, 27)
	peer, err := udp.Listen(n.b, 0, udp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	next := func(want string) {
		t.Helper()
		if got := readTexts(t, peer, 1); got[0] != want {
			t.Fatalf("%q came, want %q", got[0], want)
		}
	}
	for range 3 { // one executor after the other
		first, last := start(t, n.dir), start(t, n.dir)
		first.must("", "socket %v", n.a)
		first.must("", "will 1 %v %v first", n.a, peer.LocalAddr())
		last.must("", "will 1 %v %v last", n.a, peer.LocalAddr())
		first.kill()
		next("first") // the next keeper has sent it
		last.kill()
		next("last")
		n.awaitExecutor(t, false)
	}

	// It ends with a member that leaves nothing, too, and keeps nobody from joining.
	p := start(t, n.dir)
	p.must("", "socket %v", n.a)
	p.must("", "will 1 %v %v none", n.a, peer.LocalAddr())
	n.awaitExecutor(t, true)
	p.must("", "close")
	n.awaitExecutor(t, false)
	start(t, n.dir).must("", "socket %v", n.a)
	if b := udp.NewRxBatch(); true {
		if m, _ := peer.ReadBatch(b); m != 0 {
			t.Errorf("%q was sent as well", b.Message(0).Data)
		}
	}
}
