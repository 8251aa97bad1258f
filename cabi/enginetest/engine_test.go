// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"verbena/internal/device"
	"verbena/internal/wire/pcapread"
)

var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "enginetest"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// engine builds the library once, as cabi/Makefile does.
var engine = sync.OnceValues(func() (string, error) {
	c := exec.Command("make", "--no-print-directory", "-C", "..", "engine", "OUT="+scratch)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make engine: %v\n%s", err, out)
	}
	return filepath.Join(scratch, "libverbena-engine.so"), nil
})

// loopback returns the name of the loopback interface's device and the index of
// 127.0.0.1 in its GID table.
func loopback(t *testing.T) (name string, gid int) {
	t.Helper()
	all, err := device.ParseSelection("").List()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		addrs, err := d.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.Index(addrs, netip.MustParseAddr("127.0.0.1")); i >= 0 {
			return d.Name, i
		}
	}
	t.Fatal("no device has 127.0.0.1")
	return "", 0
}

// program compiles testdata/NAME.c.
func program(t *testing.T, name string) string {
	t.Helper()
	out := filepath.Join(scratch, name)
	c := exec.Command("gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-I../include", "-o", out, "testdata/"+name+".c", "-pthread", "-ldl")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, b)
	}
	return out
}

// run runs a program with the engine and returns its output.
func run(t *testing.T, name string, env ...string) string {
	t.Helper()
	so, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	dev, gid := loopback(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program(t, name), so, dev, strconv.Itoa(gid))
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func TestReliable(t *testing.T)    { run(t, "reliable") }
func TestDatagrams(t *testing.T)   { run(t, "datagram") }
func TestXRC(t *testing.T)         { run(t, "xrc") }
func TestDescriptors(t *testing.T) { run(t, "descriptors") }
func TestUnmapped(t *testing.T)    { run(t, "unmapped") }
func TestEvents(t *testing.T)      { run(t, "events") }

// VERBENA_FAULTS and VERBENA_PCAP take effect, and a lossy network is still a reliable one.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	run(t, "reliable", "VERBENA_FAULTS=loss=2%,dup=1%,seed=7", "VERBENA_PCAP="+filepath.Join(dir, "%p.pcapng"))
	files, err := filepath.Glob(filepath.Join(dir, "*.pcapng"))
	if err != nil || len(files) != 1 {
		t.Fatalf("captures: %v, %v", files, err)
	}
	if pid := strings.TrimSuffix(filepath.Base(files[0]), ".pcapng"); strings.Trim(pid, "0123456789") != "" {
		t.Errorf("%%p became %q", pid)
	}
	if packets := countPackets(t, files[0]); packets < 40 {
		t.Errorf("%d packets captured", packets)
	}
	exits := filepath.Join(dir, "exits")
	run(t, "cost", "VERBENA_PCAP="+exits, "CLOSE=no")
	if packets := countPackets(t, exits); packets == 0 {
		t.Error("a program that ends without closing left nothing captured")
	}
	so, err := engine()
	if err != nil {
		t.Fatal(err)
	}
	dev, gid := loopback(t)
	c := exec.Command(program(t, "reliable"), so, dev, strconv.Itoa(gid))
	c.Env = append(os.Environ(), "VERBENA_FAULTS=loss=lots")
	if out, err := c.CombinedOutput(); err == nil || !strings.Contains(string(out), "Invalid argument") {
		t.Errorf("with faults that mean nothing: %v\n%s", err, out)
	}
}

func countPackets(t *testing.T, file string) (n int) {
	t.Helper()
	r, err := pcapread.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return n
		} else if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

func TestRefusals(t *testing.T) {
	if out := run(t, "refusals", "VERBENA_DEBUG=1"); !strings.Contains(out, "verbena: ibv_post_send: ") {
		t.Error("with VERBENA_DEBUG=1 no reason was told")
	}
}

// The program bounds the cost of a post and prints it. A test of package main shows that a post
// allocates nothing.
func TestPostCost(t *testing.T) { t.Log(run(t, "cost")) }
