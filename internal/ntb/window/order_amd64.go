package window

// On amd64 stores are seen in their order; what sync/atomic has would also wait
// for all of them, each of which may have to fetch its line from the other
// processor. They are not inlined, so that the compiler has nothing to move.

//go:noinline
func put1(p *byte, v byte) { *p = v }

//go:noinline
func put4(p *uint32, v uint32) { *p = v }

//go:noinline
func put8(p *uint64, v uint64) { *p = v }
