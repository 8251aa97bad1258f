// SPDX-License-Identifier: BSD-2-Clause

package transport

import (
	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/sys/faultcap"
	"verbena/internal/transport/iwarp"
	"verbena/internal/transport/ntb"
	"verbena/internal/transport/raw"
	"verbena/internal/transport/roce"
	"verbena/internal/transport/trp"
)

// drivers is the table of transports.
var drivers = map[device.Kind]engine.Driver{
	device.KindRoCE:  roce.Driver{},
	device.KindIWARP: iwarp.Driver{},
	device.KindTRP:   trp.Driver{},
	device.KindNTB:   ntb.Driver{},
}

// Of returns the driver of a kind of device.
func Of(k device.Kind) engine.Driver { return drivers[k] }

// For returns the driver for queue pairs of a type, of a device of the kind. It counts as Of's.
func For(k device.Kind, t ib.QPType) engine.Driver {
	if t == ib.QPTypeRawPacket {
		return raw.Driver{}
	}
	return Of(k)
}

// Options say how a process takes part.
type Options struct {
	roce.Options
	// Faults are injected into everything sent.
	Faults faultcap.Faults
	// Capture takes every packet sent and received; nil is none.
	Capture *faultcap.Capture
}

// Start starts an engine for all transports.
//
// Errors: those of roce.Component and engine.New.
func Start(o Options) (*engine.Engine, error) {
	return engine.New(engine.Options{Faults: o.Faults, Capture: o.Capture,
		Components: []func(*engine.Engine) (engine.Component, error){roce.Component(o.Options)}})
}
