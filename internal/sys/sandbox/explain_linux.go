// SPDX-License-Identifier: BSD-2-Clause

package sandbox

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// families lists the socket families that devices need. None takes a privilege.
var families = []struct {
	name           string
	family, typeOf int
}{
	{"AF_NETLINK", unix.AF_NETLINK, unix.SOCK_RAW},
	{"AF_UNIX", unix.AF_UNIX, unix.SOCK_STREAM},
	{"AF_INET", unix.AF_INET, unix.SOCK_DGRAM},
}

// Explain adds to an error that sockets of some families are refused here, if they are
// and it may come of that. It tries to open one of each.
//
// Man page: seccomp(2), socket(2).
func Explain(err error) error {
	if !forbidden(err) {
		return err
	}
	var refused []string
	for _, f := range families {
		fd, e := unix.Socket(f.family, f.typeOf|unix.SOCK_CLOEXEC, 0)
		if e == nil {
			unix.Close(fd)
		} else if forbidden(e) {
			refused = append(refused, f.name)
		}
	}
	if len(refused) == 0 {
		return err
	}
	return fmt.Errorf("%w: socket(2) is refused for %s: a seccomp filter, of a container or a "+
		"sandbox, must allow it", err, strings.Join(refused, ", "))
}

// forbidden reports whether an error is one that filters choose.
func forbidden(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}
