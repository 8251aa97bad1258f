// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exported returns the symbols that a library defines: name@@VERSION, or name@VERSION for those
// that new programs are not linked with.
func exported(t *testing.T, library string) map[string]bool {
	t.Helper()
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS {
			continue
		}
		at := "@@"
		if s.VersionIndex.IsHidden() {
			at = "@"
		}
		out[s.Name+at+s.Version] = true
	}
	return out
}

// private marks symbols between our own libraries.
const private = "@@VERBENA_PRIVATE"

// checkSymbols compares a library's symbols with a list, by name and version.
func checkSymbols(t *testing.T, library, list string) {
	text, err := os.ReadFile(filepath.Join("testdata", list))
	if err != nil {
		t.Fatal(err)
	}
	have := exported(t, library)
	for _, s := range strings.Fields(string(text)) {
		if !have[s] {
			t.Errorf("no %s", s)
		}
		delete(have, s)
	}
	for s := range have {
		if !strings.HasSuffix(s, private) {
			t.Errorf("%s is exported, but not in %s", s, list)
		}
	}
}

// TestVerbsSymbols compares with the list of rdma-core 44 in Debian 12, and the additions up to 65.
func TestVerbsSymbols(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	checkSymbols(t, filepath.Join(lib, "libibverbs.so.1"), "libibverbs.symbols")
}

// TestCMSymbols does the same as TestVerbsSymbols.
func TestCMSymbols(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	checkSymbols(t, filepath.Join(lib, "librdmacm.so.1"), "librdmacm.symbols")
}

func TestLibrariesAreThoseToTheLoader(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"libibverbs.so.1", "librdmacm.so.1"} {
		f, err := elf.Open(filepath.Join(lib, library))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if name, err := f.DynString(elf.DT_SONAME); err != nil || len(name) != 1 || name[0] != library {
			t.Errorf("%s: SONAME %v, %v", library, name, err)
		}
		// The library stays when a program unloads it: threads of the engine run in it.
		if flags, err := f.DynValue(elf.DT_FLAGS_1); err != nil || len(flags) != 1 || elf.DynFlag1(flags[0])&elf.DF_1_NODELETE == 0 {
			t.Errorf("%s: flags %v, %v: not NODELETE", library, flags, err)
		}
	}
}
