// SPDX-License-Identifier: BSD-2-Clause

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"verbena/internal/testkit/commands"
)

// The program in docs/go.md builds and runs as the page says: in a module of its own, by replace
// and in a workspace.
func TestFirstProgramOfThePage(t *testing.T) {
	const page = "../docs/go.md"
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "GOPROXY=off"), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	module := block(t, page, "module ")
	if !strings.Contains(module, "=> ../verbena\n") {
		t.Fatalf("docs/go.md does not replace the module:\n%s", module)
	}
	file("go.mod", strings.Replace(module, "=> ../verbena\n", "=> "+root+"\n", 1))
	file("go.sum", read(t, "../go.sum"))
	file("main.go", block(t, page, "package main\n"))
	command([]string{"GOFLAGS=-mod=mod"}, "go", "build", "-ldflags=-s -w", "-o", "first", ".")
	_, want, _ := strings.Cut(block(t, page, "$ go mod tidy && go run .\n"), "\n")
	same(t, "the program", command(nil, filepath.Join(dir, "first")), want)

	goMod, _, _ := strings.Cut(module, "require")
	file("go.mod", goMod)
	command([]string{"GOFLAGS="}, "go", "work", "init", ".", root)
	// A workspace needs the modules of all packages, also those for other systems.
	download := exec.Command("go", "mod", "download")
	download.Dir = root
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", download, err, out)
	}
	command([]string{"GOFLAGS=", "GOWORK=" + filepath.Join(dir, "go.work")}, "go", "vet", ".")
}

// The page for newcomers shows the tour's program and its output.
func TestTourOfThePage(t *testing.T) {
	const page = "../docs/rdma.md"
	program := read(t, "tour/main.go")
	blocks, err := commands.Blocks(page)
	if err != nil {
		t.Fatal(err)
	}
	shownLines := 0
	for _, b := range blocks {
		if b.Language != "go" {
			continue
		}
		shownLines += strings.Count(b.Text, "\n")
		if !strings.Contains(program, b.Text) {
			t.Errorf("%s:%d: examples/tour/main.go has not these lines:\n%s", page, b.Line, b.Text)
		}
	}
	if shownLines < 40 {
		t.Errorf("%s shows %d lines of the program", page, shownLines)
	}

	pcap := filepath.Join(t.TempDir(), "tour.pcapng")
	_, want, _ := strings.Cut(block(t, page, "$ go run ./examples/tour\n"), "\n")
	same(t, "the tour", plain(run(t, 0, "tour", "-pcap", pcap)), plain(want))

	_, shown, _ := strings.Cut(block(t, page, "$ go run ./examples/tour -pcap"), "uniq -f 2\n")
	var packets []string
	for line := range strings.Lines(run(t, 0, "verbena", "dump", "--info-only", pcap)) {
		_, line, _ = strings.Cut(line, "→") // number and time before it differ
		if line = plain(line); strings.Contains(line, " RC ") && (packets == nil || line != packets[len(packets)-1]) {
			packets = append(packets, line)
		}
	}
	for line := range strings.Lines(shown) {
		_, line, _ = strings.Cut(line, "→")
		if len(packets) == 0 || packets[0] != plain(line) {
			t.Fatalf("the page has the packet%s where the capture has%s", plain(line), strings.Join(packets, ""))
		}
		packets = packets[1:]
	}
	if len(packets) > 0 {
		t.Errorf("the capture has more packets than the page:%s", strings.Join(packets, ""))
	}
}

var number = regexp.MustCompile("0x[0-9a-f]+")

// plain replaces numbers that differ in each run.
func plain(s string) string { return number.ReplaceAllString(s, "0x…") }

// docs/go.md names every example.
func TestExamplesAreLinked(t *testing.T) {
	page := read(t, "../docs/go.md")
	folders, err := filepath.Glob("*/main.go")
	if err != nil || len(folders) == 0 {
		t.Fatalf("examples: %v, %v", folders, err)
	}
	for _, main := range folders {
		if link := "](../examples/" + filepath.ToSlash(main) + ")"; !strings.Contains(page, link) {
			t.Errorf("docs/go.md has no link %s", link)
		}
	}
}

// block returns the block of a page that begins so.
func block(t *testing.T, page, begin string) string {
	t.Helper()
	blocks, err := commands.Blocks(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if strings.HasPrefix(b.Text, begin) {
			return b.Text
		}
	}
	t.Fatalf("%s has no block that begins with %q", page, begin)
	return ""
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
