// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newer has the version nodes of rdma-core 65 that 44 lacks, by library, and one that both have.
var newer = map[string]string{
	"libibverbs.so.1": `
		IBVERBS_1.1 { global: ibv_fork_init; };
		IBVERBS_1.15 { global: ibv_alloc_dmah; ibv_dealloc_dmah; ibv_reg_mr_ex; };
		IBVERBS_1.16 { global: ibv_dm_export_dmabuf_fd; ibv_query_port_speed; };
		IBVERBS_1.17 { global: ibv_alloc_buf; ibv_free_buf; ibv_reg_buf_mr; };
		IBVERBS_1.18 { global: ibv_create_comp_cntr; };
		IBVERBS_PRIVATE_65 { global: ibv_wr_opcode_str; local: *; };`,
	"librdmacm.so.1": `
		RDMACM_1.4 { global: rdma_query_addrinfo; rdma_resolve_addrinfo; rdma_write_cm_event; };
		RDMACM_1.5 { global: repoll_wait; local: *; };`,
}

// TestProgramOfNewerLibraries links a program with stand-ins that have the nodes of rdma-core 65,
// and runs it with our libraries.
func TestProgramOfNewerLibraries(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gcc := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, out)
		}
	}
	program := filepath.Join(dir, "newer")
	link := []string{"-o", program, "testdata/newer.c", "-Wl,-z,now"}
	nodes := 0
	for name, script := range newer {
		file := filepath.Join(dir, name+".map")
		if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		stub := filepath.Join(dir, name)
		gcc("-shared", "-fPIC", "-DSTUBS", "-o", stub, "testdata/newer.c", "-Wl,-soname,"+name, "-Wl,--version-script="+file)
		link = append(link, stub)
		nodes += strings.Count(script, "{")
	}
	gcc(link...)

	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string]bool{}
	for _, s := range symbols {
		if _, ours := newer[s.Library]; ours {
			wants[s.Version] = true
		}
	}
	if len(wants) != nodes {
		t.Fatalf("the program asks for %v, not for %d nodes", wants, nodes)
	}
	if out, complaint := outputOf(t, program, []string{"LD_LIBRARY_PATH=" + lib}); out != "" || complaint != "" {
		t.Errorf("%s%s", out, complaint)
	}
}
