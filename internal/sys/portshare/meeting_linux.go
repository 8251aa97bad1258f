// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func (m *member) Meeting(slot int) string {
	dir, lock := filepath.Split(m.paths.lock)
	return filepath.Join(dir, "ring"+strings.TrimPrefix(lock, "slots")+"-"+strconv.Itoa(slot))
}

// clearMeetings removes what dead members have left at the paths of Meeting. No slot is
// owned, and none can be before there is a keeper.
func (m *member) clearMeetings() {
	for s := 1; s < Slots; s++ {
		os.Remove(m.Meeting(s))
	}
}
