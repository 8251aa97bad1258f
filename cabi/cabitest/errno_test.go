// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// neverFails matches functions that cannot fail, or not by a call in this test.
	neverFails = regexp.MustCompile(`_str$|_rate|^mult_|^ibv_(ack|copy|unimport)_|^rdma_(destroy_(ep|event_channel|qp|srq)|free|get_(src|dst)_port)` +
		`|^(ibv_free_device_list|ibv_get_device_(list|name|guid|index)|ibv_fork_init|ibv_is_fork_initialized|ibv_do(nt)?fork_range|ibv_free_buf` +
		`|ibv_get_sysfs_path|ibv_close_device|ibv_query_qp_data_in_order|rdma_create_event_channel|rdma_get_devices)$`)
	// refusesAll matches functions that always fail.
	refusesAll = regexp.MustCompile(`^(ibv_import_|ibv_(set|query)_ece)`)
	// nobodyCalls matches functions of old programs and between libraries that do and return
	// nothing, and symbols that are no functions.
	nobodyCalls = regexp.MustCompile(`^(verbs_(register_driver|allow_disassociate|init_cq|set_ops|uninit_context)|ibv_(register_driver|ack_|free_device_list|get_device_guid)` +
		`|__verbs_log|__ioctl_final|ibv_dmabuf_heap_(destroy|free)|ibv_wr_opcode_str)`)
	// between matches version nodes of functions between libraries, and of programs from before
	// 2007.
	between = regexp.MustCompile(`[^@]@IBVERBS_1\.0$|^ibv_register_driver@|@IBVERBS_PRIVATE_`)
	// inHeader matches functions of <infiniband/verbs.h> that make no call, that post and poll, and
	// those of objects that nobody can make.
	inHeader = regexp.MustCompile(`^ibv_(wr_|wc_|(start|next|end)_poll|cq_ex_to_cq|inc_rkey|flow_label|is_qpt|static_providers|(modify|destroy)_flow_action)`)
	// ofFrames matches functions that need CAP_NET_RAW.
	ofFrames = regexp.MustCompile(`_(wq|wq_recv|rwq_ind_table|flow|flow_action_esp)$`)
	// newerRefused matches functions of rdma-core after 44 that always fail, and whose types no
	// header has.
	newerRefused = regexp.MustCompile(`^_?ibv_(dm_export_dmabuf_fd|export_buf_dmabuf_fd)@`)
)

// TestErrno calls every function that the libraries export, and those that verbs.h has inline.
// Where it succeeds errno stays as it was, where it fails errno says why.
func TestErrno(t *testing.T) {
	lib, err := libDir()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob("testdata/errno_*.c")
	if err != nil || len(programs) < 5 {
		t.Fatal(programs, err)
	}
	called, noRaw := map[string]bool{}, false
	for _, p := range programs {
		name := strings.TrimSuffix(filepath.Base(p), ".c")
		if name == "errno_refused" {
			continue
		}
		out, complaint := outputOf(t, compile(t, name), []string{"LD_LIBRARY_PATH=" + lib}, "127.0.0.1")
		if complaint != "" {
			t.Errorf("%s", complaint)
		}
		for line := range strings.Lines(out) {
			called[strings.TrimSpace(line)] = true
			if strings.HasPrefix(line, "not run: ") {
				t.Log(strings.TrimSpace(line))
				noRaw = true
			}
		}
	}
	header, err := os.ReadFile("/usr/include/infiniband/verbs.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\b(ibv_[a-z0-9_]+) *\(`).FindAllSubmatch(header, -1) {
		name := string(m[1])
		if inHeader.MatchString(name) || noRaw && ofFrames.MatchString(name) || called["succeeds "+name] || called["fails "+name] || called["succeeds _"+name] || called["succeeds ___"+name] {
			continue
		}
		t.Errorf("%s of verbs.h is not called", name)
	}
	refused := []string{}
	for _, library := range []string{"libibverbs.so.1", "librdmacm.so.1"} {
		symbols := exported(t, filepath.Join(lib, library))
		for _, s := range slices.Sorted(maps.Keys(symbols)) {
			name, version, _ := strings.Cut(s, "@")
			switch {
			case strings.HasSuffix(s, private): // our own
			case between.MatchString(s) || newerRefused.MatchString(s):
				if !nobodyCalls.MatchString(name) {
					refused = append(refused, name+"@"+strings.TrimPrefix(version, "@"))
				}
			default:
				if !called["succeeds "+name] && !refusesAll.MatchString(name) {
					t.Errorf("%s is not called where it succeeds", s)
				}
				if !called["fails "+name] && !neverFails.MatchString(name) {
					t.Errorf("%s is not called where it fails", s)
				}
			}
		}
	}
	if len(refused) < 50 {
		t.Errorf("%d functions that refuse all: %v", len(refused), refused)
	}
	if _, complaint := outputOf(t, compile(t, "errno_refused"), []string{"LD_LIBRARY_PATH=" + lib}, refused...); complaint != "" {
		t.Errorf("%s", complaint)
	}
}
