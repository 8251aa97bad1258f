package held

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// loses has the test binary play a process that closes all its descriptors.
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
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0) // before the canary: has a lower number
	if err != nil || Check() {
		return 10
	}
	null := os.NewFile(uintptr(fd), os.DevNull)
	Add(fd)
	if Check() || Lost() {
		return 11
	}
	for fd := 3; fd < 100; fd++ {
		syscall.Close(fd)
	}
	if Lost() {
		return 12 // it says what Check has found
	}
	for range 50 { // descriptors of the application's
		if _, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0); err != nil {
			return 13
		}
	}
	if !Check() || !Lost() {
		return 14
	}
	if Close(fd) == nil || CloseConn(null) == nil {
		return 15
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil {
		return 16 // the application's was closed
	}
	return 0
}

func TestLostDescriptorsAreNotClosed(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loses+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestNothingStaysBehind(t *testing.T) {
	for range 3 {
		Add(0)
		n := 0
		if Each(func(int) { n++ }); n != 2 {
			t.Fatalf("%d descriptors, not one and the canary", n)
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
