// SPDX-License-Identifier: BSD-2-Clause

// Package rundir names the directory in which processes of one user find each
// other, for all parts of the module alike:
//
//	$XDG_RUNTIME_DIR/verbena      where that is this user's and nobody else may write in it
//	$XDG_RUNTIME_DIR/verbena-UID  where others may, or it is another's, and this user may too
//	/run/user/UID/verbena         without the variable, or where nothing can be made there
//	/tmp/verbena-UID              without any of these
//
// Nobody else may write in the directory itself: Make checks that, and Check where nothing is to be
// made.
package rundir
