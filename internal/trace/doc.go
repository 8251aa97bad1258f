// Package trace writes RoCEv2 packets as text, one line each, in the words of
// Wireshark's columns, so that a line of ours and a line of tshark's about the
// same packet read the same:
//
//	14   0.002828 10.77.0.2 → 10.77.0.3 RRoCE 1098 RC RDMA Write First QP=0x000011  PSN=1209 VA=0x5581 RKey=0x00000a3c DMALen=3000 Len=1024
//	└ frame └ seconds                         └ bytes └ info, as Wireshark            └ detail, ours
//
// A Formatter is a value; it keeps nothing between packets.
package trace
