// SPDX-License-Identifier: BSD-2-Clause

package cm

import "fmt"

const attrClassPortInfo Attribute = 0x01

// wordsOf are the names Wireshark gives the messages.
var wordsOf = [...]string{
	attrClassPortInfo: "ClassPortInfo",
	AttrREQ:           "ConnectRequest",
	AttrMRA:           "MsgRcptAck",
	AttrREJ:           "ConnectReject",
	AttrREP:           "ConnectReply",
	AttrRTU:           "ReadyToUse",
	AttrDREQ:          "DisconnectRequest",
	AttrDREP:          "DisconnectReply",
	AttrSIDRREQ:       "ServiceIDResReq",
	AttrSIDRREP:       "ServiceIDResReqResp",
	AttrLAP:           "LoadAlternatePath",
	AttrAPR:           "AlternatePathResponse",
}

// Describe returns one line about a MAD, in the words of Wireshark's info column: "CM:
// ConnectRequest". Another MAD is named by its class; bytes that are no MAD are "CM: malformed".
func Describe(mad []byte) string {
	h, _, ok := ParseHeader(mad)
	if !ok || len(mad) < MADSize {
		return "CM: malformed"
	}
	if h.Class != Class {
		return fmt.Sprintf("MAD of class 0x%02x", h.Class)
	}
	return "CM: " + h.Attribute.String()
}

// String returns the name that Wireshark gives the message.
func (a Attribute) String() string {
	if int(a) < len(wordsOf) && wordsOf[a] != "" {
		return wordsOf[a]
	}
	return "(Unknown CM Attribute)"
}
