// SPDX-License-Identifier: BSD-2-Clause

package stats

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"verbena/internal/sys/rundir"
)

func serve(t *testing.T, dir string, counter uint64) *Server {
	t.Helper()
	s, err := Serve(dir, "", func() Snapshot {
		return Snapshot{PID: os.Getpid(), Command: "test", Devices: []Device{
			{Name: "roce_lo", Kind: "RoCEv2", Counters: []Counter{{Name: "rx_packets", Value: counter}}},
		}}
	}, nil)

	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestCollectFindsAServingProcess(t *testing.T) {
	dir := filepath.Join(shortDir(t), "run")
	s := serve(t, dir, 7)
	for range 2 { // a second question is answered as well
		got, err := Collect(t.Context(), dir)
		if err != nil || len(got) != 1 {
			t.Fatalf("Collect = %v, %v", got, err)
		}
		if c := got[0].Devices[0].Counters[0]; c != (Counter{Name: "rx_packets", Value: 7}) {
			t.Errorf("counter = %v", c)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := Collect(t.Context(), dir); err != nil || len(got) != 0 {
		t.Errorf("after Close: %v, %v", got, err)
	}
}

// A process answers where others look for it, also if XDG_RUNTIME_DIR cannot be used.
func TestServeBesideAnUnusableDirectory(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "not/absolute")
	dir, err := rundir.Dir()
	if err == nil || dir == "" {
		t.Fatalf("rundir.Dir = %q, %v: want another directory, and why", dir, err)
	}
	s := serve(t, "", 7)
	defer s.Close()
	all, err := Collect(t.Context(), dir)
	if err != nil || !slices.ContainsFunc(all, func(s Snapshot) bool { return s.PID == os.Getpid() }) {
		t.Errorf("Collect = %v, %v: want this process", all, err)
	}
}

func TestCollectWithoutDirectoryIsEmpty(t *testing.T) {
	got, err := Collect(t.Context(), filepath.Join(t.TempDir(), "nothing"))
	if err != nil || got != nil {
		t.Errorf("Collect = %v, %v", got, err)
	}
}

func TestCollectRemovesSocketOfDeadProcess(t *testing.T) {
	dir := shortDir(t)
	path := filepath.Join(dir, "1"+suffix)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as if killed
	l.Close()
	if got, err := Collect(t.Context(), dir); err != nil || len(got) != 0 {
		t.Errorf("Collect = %v, %v", got, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestServerWithdraws(t *testing.T) {
	dir := shortDir(t)
	s := serve(t, dir, 7)
	s.Withdraw()
	if all, err := Collect(t.Context(), dir); err != nil || len(all) != 0 {
		t.Errorf("%v is left, %v", all, err)
	}
	if err := errors.Join(s.Close(), s.Retire(Snapshot{})); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v is left, %v", list, err)
	}
}

func TestCollectEndsWithItsContext(t *testing.T) {
	dir := shortDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, "1"+suffix)) // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Collect(ctx, dir); err == nil {
		t.Error("no error")
	}
}

func TestServeRefusesADirectoryOthersMayWriteIn(t *testing.T) {
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if s, err := Serve(dir, "", func() Snapshot { return Snapshot{} }, nil); err == nil {
		s.Close()
		t.Error("no error")
	}
}
