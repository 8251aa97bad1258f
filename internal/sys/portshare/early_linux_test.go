// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestDatagramBeforeTheWelcome: a keeper passes on datagrams that waited for a member as soon as it
// knows the member. That may be before it has welcomed it.
func TestDatagramBeforeTheWelcome(t *testing.T) {
	w, err := newWatch()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := newLink(w, fds[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(w, fds[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []frame{{Kind: kindMAD, Data: []byte("early")}, {Kind: kindWelcome}, {Kind: kindMAD, Data: []byte("late")}} {
		if err := keeper.send(f); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	m := &member{vault: -1, opt: Options{OnMAD: func(d MAD) {
		if got = append(got, string(d.Payload)); len(got) == 2 {
			l.close()
		}
	}}}
	if _, err := m.welcome(l); err != errTooManyFiles { // no vault came with it
		t.Fatal(err)
	}
	if len(got) > 0 {
		t.Errorf("%q before the member can follow", got)
	}
	m.follow(l)
	if len(got) != 2 || got[0] != "early" || got[1] != "late" {
		t.Errorf("the member got %q", got)
	}
	keeper.close()
	w.close()
}
