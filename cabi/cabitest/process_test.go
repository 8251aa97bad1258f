// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// process is a running one of this user that the test has not started itself.
type process struct {
	t   *testing.T
	dir string // in /proc
}

// keeperOf returns the keeper that a program has started.
func keeperOf(p *alone) process {
	p.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, dir := range all {
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		name, rest, _ := strings.Cut(string(args), "\x00")
		if filepath.Base(name) == "verbena-keeper" && strings.Contains(rest, p.run+"/") {
			return process{p.t, dir}
		}
	}
	p.t.Fatalf("%v has no keeper", p.cmd.Args)
	return process{}
}

// ids returns its number, and those of its process group and session.
func (p process) ids() (pid, group, session int) {
	p.t.Helper()
	stat, err := os.ReadFile(filepath.Join(p.dir, "stat"))
	if err != nil {
		p.t.Fatal(err)
	}
	var state string
	var parent int
	at := strings.LastIndexByte(string(stat), ')') + 1
	if _, err := fmt.Sscan(string(stat[at:]), &state, &parent, &group, &session); err != nil {
		p.t.Fatal(err)
	}
	if pid, err = strconv.Atoi(filepath.Base(p.dir)); err != nil {
		p.t.Fatal(err)
	}
	return pid, group, session
}

// peakKiB returns the most memory that it ever had.
func (p process) peakKiB() (kib int) {
	p.t.Helper()
	status, err := os.ReadFile(filepath.Join(p.dir, "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &kib); err != nil {
		p.t.Fatal(err)
	}
	return kib
}

// took returns the processor time that its threads have had.
func (p process) took() (all time.Duration) {
	p.t.Helper()
	threads, err := filepath.Glob(filepath.Join(p.dir, "task", "*", "schedstat"))
	if err != nil || len(threads) == 0 {
		p.t.Fatal(p.dir, err)
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		var ns time.Duration
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			p.t.Fatal(err)
		}
		all += ns
	}
	return all
}
