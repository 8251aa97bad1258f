// Empty: it lets futex_unsafe.go declare functions of the Go runtime.
