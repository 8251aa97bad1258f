//go:build cabi

package main

// #include "engine.h"
import "C"

//export vb_descriptors
func vb_descriptors(fds *C.int, n C.int) C.int {
	return 0
}
