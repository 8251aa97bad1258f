package ibcm

// Refuse answers a MAD on behalf of a process that has no connections and
// listens to nothing, so that peers need not run into their time-outs: a REQ is
// rejected, a DREQ confirmed, a SIDR_REQ denied. It is false where silence is
// the answer.
func Refuse(path Path, mad []byte) (Datagram, bool) {
	a := New(Config{})
	a.HandleMAD(0, path, mad)
	var d Datagram
	ok := a.PollOutput(&d)
	return d, ok
}
