// SPDX-License-Identifier: BSD-2-Clause

package rdmacm_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"verbena/internal/testkit/childproc"
	"verbena/internal/testkit/idle"
	"verbena/internal/testkit/netns"
	"verbena/rdmacm"
)

// idleChild is in the environment of the process that is to sleep.
const idleChild = "VERBENA_TEST_IDLE"

// TestIdleConnectionsWakeNobody has a process with a listener and 100 connections sleep. It keeps
// the port of a network that no other process is in.
func TestIdleConnectionsWakeNobody(t *testing.T) {
	if os.Getenv(idleChild) != "" {
		beIdle(t)
		return
	}
	t.Parallel()
	network := netns.New(t)
	if network == nil {
		return
	}
	network.Up("lo")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), idleChild+"=1", "XDG_RUNTIME_DIR="+t.TempDir())
	in, out := childproc.Start(t, cmd)
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "idle\n" {
		t.Fatalf("it says %q: %v", line, err)
	}
	idle.Wait(t, cmd.Process.Pid)
	in.Close()
	io.Copy(io.Discard, r)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func beIdle(t *testing.T) {
	ctx := context.Background()
	l, err := rdmacm.ListenAddr("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept(ctx)
			accepted <- err
		}()
		if _, err := rdmacm.Dial(ctx, l.Addr().String(), nil); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("idle")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // the end of a process is not this test's subject
}
