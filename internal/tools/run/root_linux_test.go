// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"verbena/internal/device"
)

// content reads a directory back, with the inode of each file.
func content(t *testing.T, root string) (have tree, inodes map[string]uint64) {
	t.Helper()
	have, inodes = tree{}, map[string]uint64{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		inodes[name] = st.Ino
		switch {
		case e.IsDir():
			if list, err := os.ReadDir(path); err == nil && len(list) == 0 {
				have[name+"/"] = ""
			}
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			have[name] = linkTo + target
			return err
		default:
			b, err := os.ReadFile(path)
			have[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have, inodes
}

// roce is the selection of programs that say nothing.
var roce = device.ParseSelection("")

func TestRootIsBroughtUpToDate(t *testing.T) {
	base := filepath.Join(t.TempDir(), "verbena")
	first := tree{"dev/a": "", "sys/x/1": "one\n", "sys/x/link": linkTo + "/nowhere", "sys/old/deep/2": "two\n", "empty/": ""}
	root, err := makeRoot(base, roce, first)
	if err != nil {
		t.Fatal(err)
	}
	have, inodes := content(t, root)
	if !maps.Equal(have, first) {
		t.Errorf("have %q", have)
	}
	again, err := makeRoot(base, roce, first)
	if err != nil || again != root {
		t.Errorf("again: %s, %v", again, err)
	}
	if _, now := content(t, root); !maps.Equal(inodes, now) {
		t.Errorf("files were written anew: %v, %v", inodes, now)
	}
	second := tree{"dev/a": "", "sys/x/1": "changed\n", "sys/x/link": linkTo + "/elsewhere", "sys/x/new": "n\n"}
	if _, err := makeRoot(base, roce, second); err != nil {
		t.Fatal(err)
	}
	if have, _ := content(t, root); !maps.Equal(have, second) {
		t.Errorf("have %q", have)
	}
}

func TestRootIsNotMadeWhereOthersWrite(t *testing.T) {
	base := t.TempDir()
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := makeRoot(base, roce, tree{"a": ""}); err == nil || !strings.Contains(err.Error(), "set XDG_RUNTIME_DIR") {
		t.Errorf("error %v", err)
	}
}

// A counter begins with 0, and another run leaves its value.
func TestCountersStay(t *testing.T) {
	base := filepath.Join(t.TempDir(), "verbena")
	for _, want := range []string{"0\n", "77\n"} {
		root, err := makeRoot(base, roce, tree{"hw_counters/sent_pkts": counterFile})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, "hw_counters/sent_pkts")
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%q, %v, want %q", b, err, want)
		}
		if err := os.WriteFile(path, []byte("77\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDriverFilesAreThoseOfTheDevices(t *testing.T) {
	devices, err := device.ParseSelection("").List()
	if err != nil || len(devices) == 0 {
		t.Fatal(err, devices)
	}
	have, err := driverFiles(devices)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range devices {
		mad := fmt.Sprintf("umad%d", i)
		node := nodeName(&d)
		dev := "sys/class/infiniband/" + d.Name + "/"
		want := map[string]string{
			"dev/infiniband/" + node:                        "",
			"dev/infiniband/" + mad:                         "",
			"sys/class/infiniband_mad/" + mad + "/ibdev":    d.Name + "\n",
			"sys/class/infiniband_mad/" + mad + "/port":     "1\n",
			"sys/class/infiniband_verbs/" + node + "/ibdev": d.Name + "\n",
			dev + "node_guid":                               d.GUID.String() + "\n",
			dev + "device/net/" + d.NetDev:                  linkTo + "/sys/class/net/" + d.NetDev,
			dev + "ports/1/link_layer":                      "Ethernet\n",
			dev + "ports/1/gid_attrs/types/0":               "RoCE v2\n",
			dev + "ports/1/gid_attrs/ndevs/0":               d.NetDev + "\n",
			dev + "ports/1/hw_counters/lifespan":            "10\n",
			dev + "ports/1/counters/port_rcv_errors":        counterFile,
		}
		for _, name := range []string{"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err",
			"ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err", "completer_retry_err", "send_err", "link_downed", "rdma_sends", "rdma_recvs"} {
			want[dev+"ports/1/hw_counters/"+name] = counterFile // all that rdma_rxe has
		}
		for name, content := range want {
			if got, ok := have[name]; !ok || got != content {
				t.Errorf("%s is %q (%v), want %q", name, got, ok, content)
			}
		}
	}
}
