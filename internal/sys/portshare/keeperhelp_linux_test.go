// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// here, set, has test members be the keeper themselves: no command is installed.
const here = "VERBENA_SHARE_HERE"

func init() {
	KeeperPath = func() (string, error) {
		if os.Getenv(here) != "" {
			return "", os.ErrNotExist
		}
		return os.Executable()
	}
}

// inBothPlaces runs a test with a keeper that is a process of its own, and one that is a
// member.
func inBothPlaces(t *testing.T, test func(t *testing.T)) {
	t.Run("apart", test)
	t.Run("in a member", func(t *testing.T) {
		t.Setenv(here, "1")
		test(t)
	})
}

// deadly is a message that kills the keeper that reads it, once.
const deadly = "deadly"

// testRules are those of every keeper in tests. It repeats a refused datagram.
func testRules(dir string) MADRules {
	return MADRules{
		Route: func(d []byte, to netip.Addr) Route {
			if len(d) > 9 && string(d[9:]) == deadly {
				if f, err := openFile(dir+"/"+deadly, unix.O_CREAT|unix.O_EXCL); err == nil { // the first to see one
					f.Close()
					unix.Kill(os.Getpid(), unix.SIGKILL)
					select {}
				}
			}
			return routeTest(d, to)
		},
		Overlap: overlapTest,
		Refuse:  func(d MAD, answer []byte) []byte { return append(append(answer, "refused "...), d.Payload[9:]...) },
	}
}

// keeperMain is the test's program as the command verbena.
func keeperMain(args []string) {
	keeperPatience()
	if args[0] == Detached {
		Keep(args[1], testRules(args[1]), nil)
		return
	}
	Detach(args[len(args)-1])
}

// keepers returns the keepers of a directory, also those that start.
func keepers(t *testing.T, dir string) (all []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{KeeperCommand, Detached, dir}, "\x00") + "\x00"
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // it may be no process, or have ended
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.HasSuffix(string(line), want) {
			all = append(all, pid)
		}
	}
	return all
}

// killAll ends the keepers of a test that is over.
func killAll(t *testing.T, dir string) {
	for _, pid := range keepers(t, dir) {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// keeper returns the process that is the keeper of some members, the lock's holder.
func (n *network) keeper(t *testing.T) int {
	t.Helper()
	for until := time.Now().Add(time.Duration(patience)); ; time.Sleep(time.Millisecond) {
		all := keepers(t, n.dir) // one more may have been started, which ends
		if len(all) == 1 {
			return all[0]
		}
		if time.Now().After(until) {
			t.Fatalf("there are keepers %v, not one", all)
		}
	}
}

// killKeeper kills the keeper and returns the members that are left.
func (n *network) killKeeper(t *testing.T, ps []*process) (others []*process) {
	t.Helper()
	if os.Getenv(here) != "" {
		keeper, others := keeperOf(t, ps)
		keeper.kill()
		return others
	}
	pid := n.keeper(t)
	unix.Kill(pid, unix.SIGKILL)
	for until := time.Now().Add(time.Duration(patience)); slices.Contains(keepers(t, n.dir), pid); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("keeper %d does not end", pid)
		}
	}
	return ps
}

// refused waits for the datagram that the keeper refuses next.
func (n *network) refused(t *testing.T, want string) {
	t.Helper()
	if got := readTexts(t, n.sender, 1); got[0] != "refused "+want {
		t.Fatalf("%q came, not the refusal of %q", got[0], want)
	}
}

// awaitEmpty waits until a directory has nothing that keepers or members leave.
func awaitEmpty(t *testing.T, dir string) {
	t.Helper()
	for until := time.Now().Add(time.Duration(patience)); ; time.Sleep(time.Millisecond) {
		list, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%v are left in the directory", list)
		}
	}
}

// keeperPatience has a keeper wait for longer than a busy machine holds up a test, and not
// long for more members.
func keeperPatience() {
	listenPatience = time.Second
	linger, leavePatience = 100*time.Millisecond, 100*time.Millisecond
	settlePatience = time.Duration(patience)
	if os.Getenv(patientVariable) != "" {
		leavePatience = time.Duration(patience)
	}
}

// patientVariable has a keeper that is sent SIGTERM wait until the test has ended its members.
const patientVariable = "VERBENA_SHARE_PATIENT"
