// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"verbena/internal/wire/pcapread"
)

// TestPrivilegedProgramsHaveNoVariables: a program with privileges that its user lacks writes no
// file and opens no device that the user names.
func TestPrivilegedProgramsHaveNoVariables(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, "secure", "-Wl,-rpath,"+lib)
	dir := t.TempDir()
	capture := filepath.Join(dir, "capture")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(of func(*exec.Cmd) error) (devices []string, out string) {
		t.Helper()
		var b bytes.Buffer
		c := exec.CommandContext(t.Context(), program)
		c.Env = append(os.Environ(), "VERBENA_PCAP="+capture, "VERBENA_NTB=shm:"+dir, "VERBENA_DEVICES=roce_lo,ntb",
			"XDG_RUNTIME_DIR="+dir, "VERBENA_DEBUG=1", "VERBENA_FAULTS=delay=1us")
		c.Stdout, c.Stderr = &b, &b
		if err := of(c); err != nil {
			t.Fatalf("%v\n%s", err, &b)
		}
		return strings.Fields(b.String()), b.String()
	}

	devices, out := start(securely)
	if !strings.HasPrefix(out, "secure 1\n") {
		t.Fatalf("the program trusts its environment, which tests nothing: %s", out)
	}
	if strings.Contains(out, "ntb") {
		t.Errorf("devices are the user's choice: %q", devices)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("it left %q: %v", left, err)
	}

	// Without privileges the variables apply, and both contexts are captured.
	_, out = start((*exec.Cmd).Run)
	if want := "secure 0\nroce_lo\nntb0\n"; out != want {
		t.Errorf("without privileges: %q, want %q", out, want)
	}
	if sections, packets := captured(t, capture); sections != 2 || packets < 4 {
		t.Errorf("%d sections captured with %d packets, want two with a WRITE and its acknowledgement each", sections, packets)
	}
	if _, err := os.Stat(filepath.Join(dir, "verbena")); err != nil {
		t.Error(err)
	}
}

// TestCaptureTakesNoFileThatIsThere: the first object fails, and an existing file, or the target of
// a link, stays as it is.
func TestCaptureTakesNoFileThatIsThere(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	program := compile(t, "alloc_pd")
	there := filepath.Join(t.TempDir(), "there")
	link := there + "-link"
	if err := errors.Join(os.WriteFile(there, []byte("theirs"), 0o644), os.Symlink(there, link)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{there, link} {
		out, _ := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib, "VERBENA_PCAP=" + file})
		if want := syscall.EEXIST.Error(); !strings.EqualFold(strings.TrimSpace(out), want) {
			t.Errorf("%s: %q, want %q", file, out, want)
		}
	}
	if got, err := os.ReadFile(there); err != nil || string(got) != "theirs" {
		t.Errorf("the file is %q now: %v", got, err)
	}
}

// captured returns the number of sections of a file, and of all packets.
func captured(t *testing.T, file string) (sections, packets int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections = bytes.Count(b, []byte("\n\r\r\n")) // the type of a section's header
	r, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		if _, err := r.Next(); err != nil {
			return sections, packets
		}
		packets++
	}
}

// securely runs a command as the kernel runs a set-uid program for another user: with AT_SECURE in
// the auxiliary vector, which the C library reads at its start. That needs no privilege.
func securely(c *exec.Cmd) error {
	runtime.LockOSThread() // ptrace works per thread
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("it did not stop where it starts: %v, %v", status, err)
	}
	return errors.Join(setSecure(c.Process.Pid), syscall.PtraceDetach(c.Process.Pid), c.Wait())
}

// setSecure sets AT_SECURE in the memory of a process that has just been executed.
func setSecure(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	// proc(5): after the name, in parentheses, the third field is the first.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	at, err := strconv.ParseInt(fields[28-3], 10, 64) // startstack
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	word := func() uint64 {
		b := make([]byte, 8)
		if _, e := mem.ReadAt(b, at); e != nil {
			err = e
		}
		at += 8
		return binary.NativeEndian.Uint64(b)
	}
	at += int64(8 * (word() + 1))   // argc, argv and its NULL
	for err == nil && word() != 0 { // envp and its NULL
	}
	for err == nil {
		kind, value := word(), at
		if kind == 0 {
			return errors.New("no AT_SECURE")
		}
		if word(); kind == 23 {
			_, err = mem.WriteAt(binary.NativeEndian.AppendUint64(nil, 1), value)
			return err
		}
	}
	return err
}
