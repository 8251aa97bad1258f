// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingSymbols: scripts/missing-symbols names the symbols of a later rdma-core that our
// libraries lack.
func TestMissingSymbols(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// missing runs the script and returns its exit status and its output.
	missing := func() (int, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "../../scripts/missing-symbols", tree, lib)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if status, out := missing(); status != 2 || !strings.Contains(out, "not a tree of rdma-core") {
		t.Errorf("no tree: status %d: %s", status, out)
	}

	const verbs = `/* Do not change */
IBVERBS_1.0 {
	global:
		ibv_get_device_list; /* of old */
	local: *;
};
/* Two
   lines; { global: none; }; */
IBVERBS_1.1 {
	global:
		ibv_alloc_pd;
} IBVERBS_1.0;
IBVERBS_PRIVATE_@IBVERBS_PABI_VERSION@ {
	global:
		ibv_cmd_alloc_pd;
		verbs_register_driver_@IBVERBS_PABI_VERSION@;
};
`
	write("CMakeLists.txt", "set(PACKAGE_VERSION \"65.0\")\nset(IBVERBS_PABI_VERSION \"65\")\n")
	write("libibverbs/libibverbs.map.in", verbs)
	write("librdmacm/librdmacm.map", "RDMACM_1.0 {\n\tglobal:\n\t\trdma_create_id;\n};\n")
	if status, out := missing(); status != 0 || out != "" {
		t.Errorf("all is there: status %d: %s", status, out)
	}

	write("CMakeLists.txt", "set(IBVERBS_PABI_VERSION \"99\")\n")
	write("libibverbs/libibverbs.map.in", verbs+"IBVERBS_1.99 {\n\tglobal:\n\t\tibv_alloc_pd;\n\t\tibv_tomorrow;\n} IBVERBS_1.1;\n")
	write("librdmacm/librdmacm.map", "RDMACM_1.0 {\n\tglobal:\n\t\trdma_create_id;\n\t\trdma_tomorrow;\n};\n")
	const want = `ibv_alloc_pd@IBVERBS_1.99
ibv_cmd_alloc_pd@IBVERBS_PRIVATE_99
ibv_tomorrow@IBVERBS_1.99
verbs_register_driver_99@IBVERBS_PRIVATE_99
rdma_tomorrow@RDMACM_1.0
`
	if status, out := missing(); status != 1 || out != want {
		t.Errorf("status %d, %s\nwant 1, %s", status, out, want)
	}
}
