// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import (
	"syscall"

	"verbena/ib"
	"verbena/verbs"
)

// CreateQP makes a queue pair that the ID takes through its states:
// rdma_create_qp(3). pd belongs to the ID's device. The queue pair can take
// receives when it returns; one for datagrams is ready to send as well.
//
// Errors: ENODEV in the port space IPoIB; EINVAL if the ID has no device yet, has a queue
// pair, or the port space does not go with the type: UD in UDP and IB; RC and XRC in TCP and
// IB; UC in IB.
func (id *ID) CreateQP(pd *verbs.PD, attr *verbs.QPInitAttr) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.checkQP(pd.Context(), attr.Type); err != nil {
		return err
	}
	qp, err := pd.CreateQP(attr)
	if err != nil {
		return err
	}
	if err := id.initQP(qp); err != nil {
		_ = qp.Destroy() // it was just made; the error that counts is the first
		return err
	}
	id.qp = qp
	return nil
}

// UseQP gives the ID a queue pair made with PD.CreateQP, as if CreateQP had made it. In the RESET
// state it is taken from there. An iWARP queue pair may be in INIT already, and then keeps its
// attributes until it is connected. It leaves the ID by ReleaseQP or DestroyQP.
//
// Errors: those of CreateQP.
func (id *ID) UseQP(qp *verbs.QP) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.checkQP(qp.Context(), qp.Type()); err != nil {
		return err
	}
	if err := id.initQP(qp); err != nil {
		return err
	}
	id.qp = qp
	return nil
}

// ReleaseQP takes the queue pair from the ID, and out of the multicast groups that the ID joined.
// It returns the queue pair, nil if there is none. The caller destroys it.
func (id *ID) ReleaseQP() *verbs.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	qp := id.qp
	if qp != nil {
		id.detach()
		id.qp = nil
	}
	return qp
}

// checkQP reports why the ID cannot take a queue pair, nil if it can. The caller holds mu.
func (id *ID) checkQP(ctx *verbs.Context, t ib.QPType) error {
	switch {
	case id.state == stDestroyed || id.at.verbs == nil:
		return invalid("CreateQP", "the ID is %v: it needs a device", id.state)
	case id.qp != nil:
		return invalid("CreateQP", "the ID has a queue pair")
	case ctx.Info().Name != id.at.verbs.Info().Name:
		return invalid("pd", "belongs to device %s, the ID to %s", ctx.Info().Name,
			id.at.verbs.Info().Name)
	}
	if err := id.become(t); err != nil {
		return err
	}
	return id.hasQKey()
}

// initQP takes a new queue pair to the first state that takes receives.
func (id *ID) initQP(qp *verbs.QP) error {
	if attr, _ := qp.Query(); attr.State == ib.QPInit && id.kind.IsIWARP() {
		return nil
	}
	steps := []ib.QPState{ib.QPInit}
	if id.datagrams() {
		steps = append(steps, ib.QPRTR, ib.QPRTS)
	}
	return id.modify(qp, steps...)
}

// modify takes a queue pair through states with the attributes of the ID.
func (id *ID) modify(qp *verbs.QP, steps ...ib.QPState) error {
	for _, s := range steps {
		attr, mask, _ := id.proto.attrFor(s, qp.Type())
		if err := qp.Modify(&attr, mask); err != nil {
			return err
		}
	}
	return nil
}

// readyQP takes the ID's queue pair, if it has one, to RTR and RTS.
func (id *ID) readyQP() error {
	if id.qp == nil {
		return nil
	}
	return id.modify(id.qp, ib.QPRTR, ib.QPRTS)
}

// failQP takes the ID's queue pair, if it has one, to the error state.
func (id *ID) failQP() error {
	if id.qp == nil {
		return nil
	}
	return id.qp.Modify(&ib.QPAttr{State: ib.QPErr}, ib.QPStateAttr)
}

// QP returns the ID's queue pair, nil without.
func (id *ID) QP() *verbs.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// DestroyQP destroys the queue pair and takes it out of the multicast groups that the ID joined:
// rdma_destroy_qp(3). An iWARP connection ends with it: Disconnected follows.
func (id *ID) DestroyQP() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.qp == nil {
		return invalid("DestroyQP", "the ID has no queue pair")
	}
	id.detach()
	err := id.qp.Destroy()
	id.qp = nil
	id.proto.qpDestroyed()
	return err
}

// QPAttr returns the attributes with which an application takes a queue pair of its own to a state:
// rdma_init_qp_attr(3). INIT may be asked for once the ID has a device, RTR and RTS after
// ConnectResponse, ConnectRequest or Established.
func (id *ID) QPAttr(s ib.QPState, t ib.QPType) (ib.QPAttr, ib.QPAttrMask, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.at.verbs == nil:
		return ib.QPAttr{}, 0, invalid("QPAttr", "the ID is %v: it needs a device", id.state)
	case s != ib.QPInit && s != ib.QPRTR && s != ib.QPRTS:
		return ib.QPAttr{}, 0, fail(syscall.EINVAL, "state", "%v: INIT, RTR or RTS", s)
	}
	if err := id.hasQKey(); err != nil {
		return ib.QPAttr{}, 0, err
	}
	attr, mask, known := id.proto.attrFor(s, t)
	if !known {
		return ib.QPAttr{}, 0, invalid("QPAttr",
			"the ID is %v: its peer's queue pair is not known", id.state)
	}
	return attr, mask, nil
}

// hasQKey refuses queue pairs of a port space whose Q_Key is that of an InfiniBand
// interface's broadcast group. Source: cma_set_qkey in Linux.
func (id *ID) hasQKey() error {
	if id.ps == IPoIB {
		return fail(syscall.ENODEV, "port space",
			"%v: no device has an InfiniBand interface", id.ps)
	}
	return nil
}

// ahTo returns the address vector from the ID's address to another.
func (id *ID) ahTo(dgid ib.GID) ib.AHAttr {
	return ib.AHAttr{IsGlobal: true, PortNum: 1, GRH: ib.GRH{
		DGID: dgid, SGIDIndex: id.at.sgidIndex(), HopLimit: 64, TrafficClass: id.tos,
	}}
}
