// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import "net/netip"

// Listen takes requests to the bound address: rdma_listen(3). Each raises ConnectRequest with an ID
// of its own. An ID that is not bound listens on all addresses, on a port that the system chooses.
// At most backlog requests wait to be accepted or rejected, 1,024 if it is not positive. The peers
// of more try again, or over iWARP wait for 20 s.
//
// Errors: EADDRINUSE if the port is taken; that of the address if UDP port 4791 can be opened on
// none of the addresses.
func (id *ID) Listen(backlog int) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Listen", stIdle, stBound); err != nil {
		return err
	}
	if id.state == stIdle {
		if err := id.bindLocked(netip.AddrPortFrom(netip.IPv6Unspecified(), 0), true); err != nil {
			return err
		}
	}
	if err := id.proto.listen(backlog); err != nil {
		return err
	}
	id.state = stListening
	return nil
}
