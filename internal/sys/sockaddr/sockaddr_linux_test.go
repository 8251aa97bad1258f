// SPDX-License-Identifier: BSD-2-Clause

package sockaddr

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestThereAndBack(t *testing.T) {
	for text, want := range map[string]struct {
		family int
		back   string // "" is text
	}{
		"192.0.2.1:80":              {unix.AF_INET, ""},
		"0.0.0.0:0":                 {unix.AF_INET, ""},
		"[::ffff:192.0.2.1]:80":     {unix.AF_INET6, ""},
		"[2001:db8::1]:65535":       {unix.AF_INET6, ""},
		"[fe80::1%lo]:1":            {unix.AF_INET6, ""},
		"[fe80::1%1]:1":             {unix.AF_INET6, "[fe80::1%lo]:1"},
		"[fe80::1%4000000000]:1":    {unix.AF_INET6, ""},
		"[fe80::1%no_interface]:1":  {unix.AF_INET6, "[fe80::1]:1"},
		"[fe80::1%99999999999]:443": {unix.AF_INET6, "[fe80::1]:443"},
	} {
		if want.back == "" {
			want.back = text
		}
		family, sa := Of(netip.MustParseAddrPort(text))
		back, ok := AddrPort(sa)
		if family != want.family || !ok || back.String() != want.back {
			t.Errorf("%s is of family %d and comes back as %v, %v", text, family, back, ok)
		}
	}
	if ap, ok := AddrPort(&unix.SockaddrUnix{Name: "/tmp/x"}); ok {
		t.Errorf("a Unix socket's address is %v", ap)
	}
}
