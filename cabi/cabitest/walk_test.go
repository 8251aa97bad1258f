// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// walked has the enumerations of <infiniband/verbs.h> whose members a program gives to a call.
var walked = []string{
	"ibv_access_flags", "ibv_create_cq_attr_flags", "ibv_create_cq_wc_flags", "ibv_qp_type",
	"ibv_qp_create_flags", "ibv_qp_create_send_ops_flags", "ibv_send_flags", "ibv_wr_opcode",
	"ibv_srq_type", "ibv_mw_type", "ibv_wq_flags", "ibv_rx_hash_fields", "ibv_flow_flags",
	"ibv_flow_attr_type", "ibv_flow_spec_type",
}

// refusedAlone has members that a call refuses in the way that the program tries them, though the
// device has them, or that are no features.
var refusedAlone = map[string]string{
	"IBV_ACCESS_OPTIONAL_FIRST": "", // not in all headers
	"IBV_WR_FLUSH":              "ibv_post_send has no fields for it: ibv_wr_flush",
	"IBV_WR_ATOMIC_WRITE":       "ibv_post_send has no fields for it: ibv_wr_atomic_write",
	"IBV_WQ_FLAGS_RESERVED":     "the end of the list",
}

// TestEachRefusalHasItsReason tries each flag, type and operation of the installed
// <infiniband/verbs.h>. The limits page names each that is refused, and none that is taken.
func TestEachRefusalHasItsReason(t *testing.T) {
	header, err := os.ReadFile("/usr/include/infiniband/verbs.h")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "\n| Refused | Reason |\n")
	table, _, ends := strings.Cut(table, "\n\n")
	if !found || !ends {
		t.Fatal("the limits page has no table of what is refused")
	}
	refused := map[string]bool{}
	for _, name := range regexp.MustCompile(`IBV_\w+`).FindAllString(table, -1) {
		refused[name] = true
	}

	text := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(header), "")
	var lists strings.Builder
	for _, name := range walked {
		_, body, found := strings.Cut(text, "\nenum "+name+" {")
		body, _, _ = strings.Cut(body, "}")
		members := regexp.MustCompile(`(?m)^\s*(IBV_\w+)`).FindAllStringSubmatch(body, -1)
		if !found || len(members) == 0 {
			t.Fatalf("the header has no %s", name)
		}
		fmt.Fprintf(&lists, "static const struct flag %s[] = {\n", name)
		for _, m := range members {
			fmt.Fprintf(&lists, "\t{\"%s\", %[1]s},\n", m[1])
		}
		lists.WriteString("};\n")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "walk.h"), []byte(lists.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lib, _ := libDir()
	out, complaints := outputOf(t, compile(t, "walk", "-I"+dir), []string{"LD_LIBRARY_PATH=" + lib})
	if complaints != "" {
		t.Error(complaints)
	}
	tried := 0
	for line := range strings.Lines(out) {
		var name string
		var errno syscall.Errno
		if _, err := fmt.Sscan(line, &name, &errno); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		tried++
		_, alone := refusedAlone[name]
		switch {
		case errno == syscall.EPERM:
			t.Logf("%s: %v", name, errno)
		case errno != 0 && errno != syscall.EOPNOTSUPP && errno != syscall.EINVAL:
			t.Errorf("%s: %v", name, errno)
		case errno != 0 && !alone && !refused[name]:
			t.Errorf("%s is refused (%v), and the table of docs/limits.md has no reason", name, errno)
		case errno == 0 && refused[name]:
			t.Errorf("the table of docs/limits.md says that %s is refused, and it is not", name)
		}
	}
	if tried < 60 {
		t.Errorf("tried %d:\n%s", tried, out)
	}
}
