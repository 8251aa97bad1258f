// SPDX-License-Identifier: BSD-2-Clause

package rundir

// perUser returns where the system may have made a directory for a user.
//
// Man page: pam_systemd(8).
func perUser(uid string) []string { return []string{"/run/user/" + uid} }

// temporary does not follow TMPDIR, which processes that are to meet may have set
// differently.
func temporary() string { return "/tmp" }
