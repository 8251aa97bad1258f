#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# perfquery.sh DEVICE PORT ADDRESS: perfquery before and after a client of ibv_rc_pingpong, which
# sends 200 messages of 4096 bytes.
set -e
count() { /usr/sbin/perfquery -x -C "$device" -P 1 | sed -n "s/^$1:\\.*//p"; }
device=$1
packets=$(count PortXmitPkts) data=$(count PortXmitData)
ibv_rc_pingpong -d "$device" -p "$2" -g 0 -n 200 "$3"
packets=$(($(count PortXmitPkts) - packets)) data=$(($(count PortXmitData) - data))
/usr/sbin/perfquery -C "$device" -P 1
[ "$packets" -ge 200 ] && [ "$data" -ge $((200 * 4096 / 4)) ] && echo "its packets are counted"
