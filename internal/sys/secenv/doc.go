// SPDX-License-Identifier: BSD-2-Clause

// Package secenv reads environment variables as secure_getenv(3) does. The libraries
// may be in a program that has privileges the user lacks; the environment is the
// user's, and must not name the files that such a program writes or the peers that it
// trusts.
package secenv
