// SPDX-License-Identifier: BSD-2-Clause

package commands

import (
	"os"
	"path/filepath"
	"testing"
)

const page = "# Page\n\n```go\nx\n```\n\n<!-- not run: needs root -->\n```sh\nreboot\n```\n\n" +
	"<!-- run by make apps: with a note -->\n```console\n$ a b\n$ c\none 1\n…\nthree 0x3 ff3.5\n```\n"

func TestBlocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Blocks(file)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d blocks, %v", len(all), err)
	}
	if b := all[0]; b.Typed() || b.Line != 3 {
		t.Errorf("Go is %+v", b)
	}
	if b := all[1]; !b.Typed() || b.NotRun != "needs root" || b.ByApps || b.Script() != "reboot\n" {
		t.Errorf("sh is %+v", b)
	}
	b := all[2]
	if !b.ByApps || b.NotRun != "" || b.Script() != "a b\nc\n" {
		t.Errorf("console is %+v", b)
	}
	if missing := b.NotSaid("zero\none   22\ntwo\nthree 0x77 12.5\n"); len(missing) != 0 {
		t.Errorf("missing %q", missing)
	}
	if missing := b.NotSaid("three 3 4\none 1\n"); len(missing) != 1 || missing[0] != "three 0x3 ff3.5" {
		t.Errorf("missing %q of what came in another order", missing)
	}
}

func TestBlockThatDoesNotEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("```sh\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Blocks(file); err == nil {
		t.Error("it is taken")
	}
}
