// SPDX-License-Identifier: BSD-2-Clause

package rsocket

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"verbena/verbs"
)

// childEnv makes the test program another process of a test instead.
const childEnv = "VERBENA_TEST_CHILD"

// TestMain makes an NTB link of shared memory, over which the process reaches itself.
func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	dir, err := os.MkdirTemp("", "rsocket")
	if err == nil {
		err = verbs.UseLinks("10.99.0.1+10.99.0.2=shm:" + filepath.Join(dir, "link"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kinds = append(kinds, "iwarp", "ntb")
	hosts["ntb"] = "10.99.0.1"
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}
