// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// addresses returns the addresses to connect to: that of the loopback interface, and that of
// another one if there is one.
func addresses(t *testing.T) []string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, ok := a.(*net.IPNet); ok && p.IP.To4() != nil && !p.IP.IsLoopback() {
			return []string{"127.0.0.1", p.IP.String()}
		}
	}
	return []string{"127.0.0.1"}
}

// TestCM runs every program of testdata that tests librdmacm.
func TestCM(t *testing.T) {
	files, err := filepath.Glob("testdata/cm_*.c")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, addr := range addresses(t) {
		for _, f := range files {
			name := strings.TrimSuffix(filepath.Base(f), ".c")
			t.Run(strings.TrimPrefix(name, "cm_")+"/"+addr, func(t *testing.T) { run(t, name, addr) })
		}
	}
}
