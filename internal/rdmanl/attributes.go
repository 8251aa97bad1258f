// SPDX-License-Identifier: BSD-2-Clause

package rdmanl

// attribute is an enum rdma_nldev_attr.
type attribute uint16

const (
	devIndex       attribute = 1
	devName        attribute = 2
	portIndex      attribute = 3
	capFlags       attribute = 4
	fwVersion      attribute = 5
	nodeGUID       attribute = 6
	sysImageGUID   attribute = 7
	portState      attribute = 12
	portPhysState  attribute = 13
	nodeType       attribute = 14
	summary        attribute = 15
	summaryEntry   attribute = 16
	summaryName    attribute = 17
	summaryCurrent attribute = 18
	resQP          attribute = 19 // a table; the number after it is that of its entries, as below
	resLQPN        attribute = 21
	resRQPN        attribute = 22
	resRQPSN       attribute = 23
	resSQPSN       attribute = 24
	resMigState    attribute = 25
	resType        attribute = 26
	resState       attribute = 27
	resPID         attribute = 28
	resCMID        attribute = 30
	resPS          attribute = 32
	resSrcAddr     attribute = 33
	resDstAddr     attribute = 34
	resCQ          attribute = 35
	resCQE         attribute = 37
	resUseCount    attribute = 38
	resMR          attribute = 40
	resMRLen       attribute = 45
	resPD          attribute = 46
	netdevIndex    attribute = 50
	netdevName     attribute = 51
	resPDN         attribute = 60
	resCQN         attribute = 61
	resMRN         attribute = 62
	resCMIDN       attribute = 63
	resCtxN        attribute = 64
	netnsMode      attribute = 66
	devProtocol    attribute = 67
	statMode       attribute = 74
	statRes        attribute = 75
	hwCounters     attribute = 80
	hwCounter      attribute = 81
	hwCounterName  attribute = 82
	hwCounterValue attribute = 83
	resCtx         attribute = 86
	resSRQ         attribute = 88
	resSRQN        attribute = 90
	copyOnFork     attribute = 93
	hwCounterIndex attribute = 94
)

// command is an enum rdma_nldev_command.
type command uint16

const (
	cmdGet         command = 1
	cmdPortGet     command = 5
	cmdSysGet      command = 6
	cmdResGet      command = 9
	cmdResQPGet    command = 10
	cmdResCMIDGet  command = 11
	cmdResCQGet    command = 12
	cmdResMRGet    command = 13
	cmdResPDGet    command = 14
	cmdStatGet     command = 17
	cmdResCtxGet   command = 22
	cmdResSRQGet   command = 23
	cmdStatGetMode command = 24
	numCommands            = 25
)
