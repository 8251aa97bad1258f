// SPDX-License-Identifier: BSD-2-Clause

package cm

import "fmt"

// Reason is why a REJ was sent.
//
// Spec: IBTA vol. 1, table 109 REJ reason codes.
type Reason uint16

// Rejection reasons.
const (
	RejNoQP                     Reason = 1
	RejNoEEC                    Reason = 2
	RejNoResources              Reason = 3
	RejTimeout                  Reason = 4
	RejUnsupported              Reason = 5
	RejInvalidCommID            Reason = 6
	RejInvalidCommInstance      Reason = 7
	RejInvalidServiceID         Reason = 8
	RejInvalidTransportType     Reason = 9
	RejStaleConnection          Reason = 10
	RejRDCNotExist              Reason = 11
	RejInvalidGID               Reason = 12
	RejInvalidLID               Reason = 13
	RejInvalidSL                Reason = 14
	RejInvalidTrafficClass      Reason = 15
	RejInvalidHopLimit          Reason = 16
	RejInvalidPacketRate        Reason = 17
	RejInvalidAltGID            Reason = 18
	RejInvalidAltLID            Reason = 19
	RejInvalidAltSL             Reason = 20
	RejInvalidAltTrafficClass   Reason = 21
	RejInvalidAltHopLimit       Reason = 22
	RejInvalidAltPacketRate     Reason = 23
	RejPortCMRedirect           Reason = 24
	RejPortRedirect             Reason = 25
	RejInvalidMTU               Reason = 26
	RejInsufficientRespResource Reason = 27
	RejConsumer                 Reason = 28
	RejRNRRetryCount            Reason = 29
	RejDuplicateLocalCommID     Reason = 30
	RejInvalidClassVersion      Reason = 31
	RejInvalidFlowLabel         Reason = 32
	RejInvalidAltFlowLabel      Reason = 33
	RejVendorOption             Reason = 35
)

var reasonNames = [...]string{
	RejNoQP: "no QP available", RejNoEEC: "no EEC available",
	RejNoResources: "no resources available", RejTimeout: "timeout",
	RejUnsupported: "unsupported request", RejInvalidCommID: "invalid COMM ID",
	RejInvalidCommInstance: "invalid COMM instance", RejInvalidServiceID: "invalid service ID",
	RejInvalidTransportType: "invalid transport service type",
	RejStaleConnection:      "stale connection", RejRDCNotExist: "RDC does not exist",
	RejInvalidGID: "primary remote port GID rejected",
	RejInvalidLID: "primary remote port LID rejected", RejInvalidSL: "invalid primary SL",
	RejInvalidTrafficClass:    "invalid primary traffic class",
	RejInvalidHopLimit:        "invalid primary hop limit",
	RejInvalidPacketRate:      "invalid primary packet rate",
	RejInvalidAltGID:          "alternate remote port GID rejected",
	RejInvalidAltLID:          "alternate remote port LID rejected",
	RejInvalidAltSL:           "invalid alternate SL",
	RejInvalidAltTrafficClass: "invalid alternate traffic class",
	RejInvalidAltHopLimit:     "invalid alternate hop limit",
	RejInvalidAltPacketRate:   "invalid alternate packet rate",
	RejPortCMRedirect:         "port and CM redirection", RejPortRedirect: "port redirection",
	RejInvalidMTU:               "invalid path MTU",
	RejInsufficientRespResource: "insufficient responder resources", RejConsumer: "consumer reject",
	RejRNRRetryCount: "RNR retry count reject", RejDuplicateLocalCommID: "duplicate local COMM ID",
	RejInvalidClassVersion: "unsupported class version",
	RejInvalidFlowLabel:    "invalid primary flow label",
	RejInvalidAltFlowLabel: "invalid alternate flow label",
	RejVendorOption:        "vendor option is not supported",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint16(r))
}
