// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import (
	"bytes"
	"testing"
	"time"
)

func TestReportIsThatOfRdmaCore(t *testing.T) {
	a, _ := ParseAddress([]byte(captured))
	var b bytes.Buffer
	printLocal(&b, kinds[0], a)
	printLocal(&b, kinds[2], a)
	printRemote(&b, a)
	printResult(&b, 4096, 1000, 1368140*time.Microsecond)
	printInvalid(&b, []int{3})
	want := `  local address:  LID 0x0000, QPN 0x000012, PSN 0x2259aa, GID ::ffff:10.77.0.2
  local address:  LID 0x0000, QPN 0x000012, PSN 0x2259aa: GID ::ffff:10.77.0.2
  remote address: LID 0x0000, QPN 0x000012, PSN 0x2259aa, GID ::ffff:10.77.0.2
8192000 bytes in 1.37 seconds = 47.90 Mbit/sec
1000 iters in 1.37 seconds = 1368.14 usec/iter
invalid data in page 3
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

func TestPagesAreMarkedAndChecked(t *testing.T) {
	m := bytes.Repeat([]byte{fillByte}, 1<<17)
	markPages(m)
	if bad := invalidPages(m); bad != nil {
		t.Errorf("invalid pages %v", bad)
	}
	m[0] = 1
	if bad := invalidPages(m); len(bad) != 1 || bad[0] != 0 {
		t.Errorf("invalid pages %v", bad)
	}
}
