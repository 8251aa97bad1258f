// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program writes the head of an ELF file: all that is looked at.
func program(t *testing.T, path, loader string, m elf.Machine) {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(m), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Shentsize: 64}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	prog := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if h.Phnum = 1; loader != "" {
		prog = elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 120, Filesz: uint64(len(loader) + 1), Memsz: uint64(len(loader) + 1)}
	}
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, &h)
	binary.Write(&b, binary.LittleEndian, &prog)
	b.WriteString(loader + "\x00")
	write(t, path, b.String())
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

const glibc = "/lib64/ld-linux-x86-64.so.2"

func TestProgramsThatWouldIgnoreTheLibraries(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	program(t, at("libibverbs.so.1"), "", elf.EM_X86_64)
	program(t, at("good"), glibc, elf.EM_X86_64)
	program(t, at("static"), "", elf.EM_X86_64)
	program(t, at("musl"), "/lib/ld-musl-x86_64.so.1", elf.EM_X86_64)
	program(t, at("arm"), "/lib/ld-linux-aarch64.so.1", elf.EM_AARCH64)
	write(t, at("script"), "#!"+at("good")+" -x\n")
	write(t, at("static-script"), "#! "+at("static")+"\n")
	write(t, at("loop"), "#!"+at("loop")+"\n")
	write(t, at("text"), "echo hello\n")
	write(t, at("cut"), elf.ELFMAG)
	for name, want := range map[string]string{
		"good": "", "script": "", "loop": "", "text": "", "cut": "", "absent": "",
		"static":        "static is statically linked",
		"static-script": "static is statically linked",
		"musl":          "musl is linked to musl",
		"arm":           "arm is a program of 64 bits for aarch64, these libraries are of 64 bits for x86_64; use one built like them",
	} {
		err := loadable(at(name), dir)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestLibrariesAreBesideTheCommand(t *testing.T) {
	prefix := t.TempDir()
	command := filepath.Join(prefix, "bin", "verbena")
	write(t, command, "")
	if _, err := libraries(command); err == nil || !strings.Contains(err.Error(), "libibverbs.so.1 is not in ") || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no libraries: %v", err)
	}
	for _, name := range libraryNames {
		write(t, filepath.Join(prefix, "lib/verbena", name), "")
	}
	link := filepath.Join(t.TempDir(), "verbena")
	if err := os.Symlink(command, link); err != nil {
		t.Skip(err)
	}
	resolved, err := filepath.EvalSymlinks(prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{command, link} {
		if dir, err := libraries(c); err != nil || dir != filepath.Join(resolved, "lib/verbena") {
			t.Errorf("%s: %s, %v", c, dir, err)
		}
	}
	spaced := filepath.Join(t.TempDir(), "a b")
	if err := os.Rename(prefix, spaced); err != nil {
		t.Fatal(err)
	}
	if _, err := libraries(filepath.Join(spaced, "bin", "verbena")); err == nil || !strings.Contains(err.Error(), "LD_PRELOAD cannot hold") {
		t.Errorf("a name with a space: %v", err)
	}
}
