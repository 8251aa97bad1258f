// SPDX-License-Identifier: BSD-2-Clause

package fdtrack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// loses has the test binary play a process that closes all its descriptors; it is
// the name of a file to write.
const loses = "VERBENA_TEST_LOSES"

func TestMain(m *testing.M) {
	if os.Getenv(loses) != "" {
		os.Exit(lose())
	}
	os.Exit(m.Run())
}

// lose returns which expectation is not met; 0 if none.
func lose() int {
	// Not os.Open, which starts the runtime's poller: it would be lost, too.
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // before the sentinel: has a lower number
	if err != nil || Check() {
		return 10
	}
	null := os.NewFile(uintptr(fd), os.DevNull)
	Add(fd)
	written, err := Create(os.Getenv(loses))
	if err != nil || Check() || Lost() {
		return 11
	}
	if n, err := written.Write([]byte("ours")); n != 4 || err != nil {
		return 17
	}
	for fd := 3; fd < 100; fd++ {
		syscall.Close(fd)
	}
	if Lost() {
		return 12 // it reports Check's finding
	}
	for range 50 { // descriptors of the application's
		if _, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0); err != nil {
			return 13
		}
	}
	given := 0
	if Each(func(int) { given++ }); given > 0 {
		return 19 // a child of a fork would close the application's
	}
	if !Check() || !Lost() {
		return 14
	}
	if _, err := written.Write([]byte("not ours")); err != syscall.EBADF {
		return 18
	}
	if Close(fd) == nil || CloseConn(null) == nil || written.Close() == nil {
		return 15
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil {
		return 16 // the application's was closed
	}
	return 0
}

func TestLostDescriptorsAreNotClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "written")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loses+"="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "ours" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("longer than what follows"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	fd := f.(file).fd
	if _, err := f.Write([]byte("new")); err != nil || !has(fd) {
		t.Errorf("%v, or it is not among the descriptors that are held", err)
	}
	if err := f.Close(); err != nil || has(fd) {
		t.Errorf("%v, or it is held still", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("the file has %q", text)
	}
	if _, err := Create(filepath.Join(path, "none")); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}

func TestNothingStaysBehind(t *testing.T) {
	for range 3 {
		Add(0)
		n := 0
		if Each(func(int) { n++ }); n != 2 {
			t.Fatalf("%d descriptors, not one and the sentinel", n)
		}
		Remove(0)
		if Each(func(fd int) { t.Errorf("descriptor %d", fd) }); Check() {
			t.Fatal("lost")
		}
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	Add(0)
	defer Remove(0)
	if k := testing.AllocsPerRun(100, func() { Check() }); k != 0 {
		t.Errorf("%v allocations", k)
	}
}

func BenchmarkCheck(b *testing.B) {
	Add(0)
	defer Remove(0)
	for b.Loop() {
		Check()
	}
}
