// SPDX-License-Identifier: BSD-2-Clause

package rdma

// tell records that q has raised events, for the node's caller.
func (q *QP) tell() {
	if !q.told {
		q.told = true
		q.node.told = append(q.node.told, q)
	}
}

// PollQP returns a queue pair that has raised events since it was returned last: an action of one
// may end another.
func (n *Node) PollQP() (*QP, bool) {
	if len(n.told) == 0 {
		return nil, false
	}
	q := n.told[0]
	n.told = n.told[:copy(n.told, n.told[1:])]
	q.told = false
	return q, true
}

// Events reports whether PollQP or PollLinkEvent has something.
func (n *Node) Events() bool { return len(n.told) > 0 || len(n.events) > 0 }
