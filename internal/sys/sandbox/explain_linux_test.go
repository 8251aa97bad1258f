// SPDX-License-Identifier: BSD-2-Clause

package sandbox

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Where sockets may be had, an error of the same errno is as it was.
func TestOtherErrorsStayAsTheyAre(t *testing.T) {
	for _, err := range []error{
		nil, unix.EINVAL, unix.EPERM,
		fmt.Errorf("a file: %w", os.ErrPermission),
	} {
		if got := Explain(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
