// SPDX-License-Identifier: BSD-2-Clause

package engine

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/monotime"
	"verbena/internal/sys/fdtrack"
)

// losesDescriptors is set in the process of TestNothingWaitsForLostBackground that loses them.
const losesDescriptors = "VERBENA_TEST_LOSES"

// An application may close all descriptors of the engine, whose background goroutine then ends.
// Answers that wait for others leave, and later ones do not wait.
func TestNothingWaitsForLostBackground(t *testing.T) {
	if os.Getenv(losesDescriptors) == "" { // they are lost for all tests of the process
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), losesDescriptors+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	const some = 5
	a, now := newAnswering(t), monotime.Time(0)
	a.hear(now, 2*some)
	if left := a.answer(&now, quick, some); left != 0 {
		t.Fatalf("%d of %d answers do not wait for others", left, some)
	}
	bg := &a.eng.bg
	bg.stopping.Store(false)
	bg.napping.Store(false)
	var ours []int
	fdtrack.Each(func(fd int) { ours = append(ours, fd) })
	for _, fd := range ours {
		unix.Close(fd)
	}
	bg.start()
	bg.done.Wait()
	if a.flushed == 0 || a.eng.delays() {
		t.Error("answers wait for a goroutine that has ended")
	}
	a.hear(now, 2*some)
	if left := a.answer(&now, quick, some); left != some {
		t.Errorf("%d of %d answers wait for a goroutine that has ended", some-left, some)
	}
}
