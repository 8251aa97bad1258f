//go:build cabi

package cabitest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWordsAreThoseOfRdmaCore runs one program with our library and with the
// one that is installed.
func TestWordsAreThoseOfRdmaCore(t *testing.T) {
	program := compile(t, "print_words")
	installed, err := exec.Command(program).Output()
	if err != nil {
		t.Fatalf("with the installed library: %v", err)
	}
	ours := strings.Split(output(t, "print_words"), "\n")
	for i, want := range strings.Split(string(installed), "\n") {
		if i >= len(ours) || ours[i] != want {
			t.Fatalf("line %d: %q, rdma-core's is %q", i+1, append(ours, "nothing")[min(i, len(ours))], want)
		}
	}
}
