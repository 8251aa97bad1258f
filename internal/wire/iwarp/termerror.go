// SPDX-License-Identifier: BSD-2-Clause

package iwarp

import "fmt"

// TermLayer is the layer that found an error.
type TermLayer uint8

// Layers.
const (
	LayerRDMAP TermLayer = iota
	LayerDDP
	LayerLLP
)

// A TermError says why a stream was terminated: layer, type and code.
//
// Spec: RFC 5040, 4.8, figure 12; RFC 5041, 8.2; RFC 5044, 8; RFC 6581, 7.
type TermError struct {
	Layer TermLayer
	Type  uint8 // 4 bits, of the layer
	Code  uint8 // of the type
}

// Errors of the RDMAP layer.
var (
	RDMAPLocalCatastrophic  = TermError{LayerRDMAP, 0, 0}
	RDMAPInvalidSTag        = TermError{LayerRDMAP, 1, 0}
	RDMAPBounds             = TermError{LayerRDMAP, 1, 1}
	RDMAPAccess             = TermError{LayerRDMAP, 1, 2}
	RDMAPNotAssociated      = TermError{LayerRDMAP, 1, 3}
	RDMAPTOWrap             = TermError{LayerRDMAP, 1, 4}
	RDMAPCannotInvalidate   = TermError{LayerRDMAP, 1, 9}
	RDMAPVersionInvalid     = TermError{LayerRDMAP, 2, 5}
	RDMAPUnexpectedOpcode   = TermError{LayerRDMAP, 2, 6}
	RDMAPCatastrophicStream = TermError{LayerRDMAP, 2, 7}
	RDMAPUnspecific         = TermError{LayerRDMAP, 2, 0xff}
)

// Errors of the DDP layer.
var (
	DDPLocalCatastrophic      = TermError{LayerDDP, 0, 0}
	DDPInvalidSTag            = TermError{LayerDDP, 1, 0}
	DDPBounds                 = TermError{LayerDDP, 1, 1}
	DDPNotAssociated          = TermError{LayerDDP, 1, 2}
	DDPTOWrap                 = TermError{LayerDDP, 1, 3}
	DDPTaggedVersionInvalid   = TermError{LayerDDP, 1, 4}
	DDPInvalidQN              = TermError{LayerDDP, 2, 1}
	DDPNoBuffer               = TermError{LayerDDP, 2, 2}
	DDPInvalidMSN             = TermError{LayerDDP, 2, 3}
	DDPInvalidMO              = TermError{LayerDDP, 2, 4}
	DDPTooLong                = TermError{LayerDDP, 2, 5}
	DDPUntaggedVersionInvalid = TermError{LayerDDP, 2, 6}
)

// Errors of the layer below DDP: MPA.
var (
	MPAConnectionLost  = TermError{LayerLLP, 0, 1}
	MPACRCError        = TermError{LayerLLP, 0, 2}
	MPAMarkerMismatch  = TermError{LayerLLP, 0, 3}
	MPAInvalidFrame    = TermError{LayerLLP, 0, 4}
	MPACatastrophic    = TermError{LayerLLP, 0, 5} // RFC 6581 from here on
	MPAInsufficientIRD = TermError{LayerLLP, 0, 6}
	MPANoMatchingRTR   = TermError{LayerLLP, 0, 7}
)

var layerNames = []string{"RDMA", "DDP", "LLP"}

var typeNames = map[[2]uint8]string{
	{0, 0}: "Local Catastrophic Error", {0, 1}: "Remote Protection Error",
	{0, 2}: "Remote Operation Error",
	{1, 0}: "Local Catastrophic Error", {1, 1}: "Tagged Buffer Error",
	{1, 2}: "Untagged Buffer Error",
	{1, 3}: "Reserved for the use by the LLP", {2, 0}: "MPA Error",
}

// rdmapCodes serve both types of the RDMAP layer.
var rdmapCodes = []string{
	0: "Invalid STag", 1: "Base or bounds violation", 2: "Access rights violation",
	3: "STag not associated with RDMAP Stream", 4: "TO wrap", 5: "Invalid RDMAP version",
	6: "Unexpected OpCode", 7: "Catastrophic error, localized to RDMAP Stream",
	8: "Catastrophic error, global", 9: "STag cannot be Invalidated",
}

var ddpTaggedCodes = []string{
	0: "Invalid STag", 1: "Base or bounds violation", 2: "STag not associated with DDP Stream",
	3: "TO wrap", 4: "Invalid DDP version",
}

var ddpUntaggedCodes = []string{
	1: "Invalid QN", 2: "Invalid MSN - no buffer available",
	3: "Invalid MSN - MSN range is not valid", 4: "Invalid MO",
	5: "DDP Message too long for available buffer", 6: "Invalid DDP version",
}

var mpaCodes = []string{
	1: "TCP connection closed, terminated or lost", 2: "MPA CRC Error",
	3: "MPA Marker and ULPDU Length field mismatch",
	4: "Invalid MPA Request Frame or MPA Response Frame", 5: "Local Catastrophic Error",
	6: "Insufficient IRD Resources", 7: "No Matching RTR Option",
}

// nth returns the i-th name, "" if there is none.
func nth(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return ""
}

// LayerName names the layer in Wireshark's words, "" if it has none.
func (e TermError) LayerName() string { return nth(layerNames, uint8(e.Layer)) }

// TypeName names the type, likewise.
func (e TermError) TypeName() string { return typeNames[[2]uint8{uint8(e.Layer), e.Type}] }

// CodeName names the code, likewise.
func (e TermError) CodeName() string {
	switch {
	case e.Layer == LayerRDMAP && e.Type != 0 && e.Code == RDMAPUnspecific.Code:
		return "Unspecific Error"
	case e.Layer == LayerRDMAP && e.Type != 0:
		return nth(rdmapCodes, e.Code)
	case e.Layer == LayerDDP && e.Type == 1:
		return nth(ddpTaggedCodes, e.Code)
	case e.Layer == LayerDDP && e.Type == 2:
		return nth(ddpUntaggedCodes, e.Code)
	case e.Layer == LayerLLP && e.Type == 0:
		return nth(mpaCodes, e.Code)
	}
	return ""
}

// String returns layer, type and code in words, or as numbers.
func (e TermError) String() string {
	layer, typ, code := e.LayerName(), e.TypeName(), e.CodeName()
	if typ == "" || code == "" && e.Type != 0 {
		return fmt.Sprintf("%d/%d/%#02x", uint8(e.Layer), e.Type, e.Code)
	}
	if code == "" {
		return layer + ": " + typ
	}
	return layer + ": " + typ + ": " + code
}
