//go:build !unix

package stats

import "os"

// ownedPrivately trusts the temporary directory of systems that give each user
// one.
func ownedPrivately(os.FileInfo) bool { return true }
