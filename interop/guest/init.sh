#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The first process of a guest, in the host's root file system. The kernel's
# command line says who the guest is, in the environment.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run

# Not mount(8): it is setuid, and an ordinary user's guest would run it as somebody else.
mount() { busybox mount "$@"; }

if [ "$GUEST_KIND" = uml ]; then # a Debian guest's initrd has mounted them
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
fi
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t configfs configfs /sys/kernel/config 2>/dev/null # a Debian guest has it as a module and needs none

if [ "$GUEST_KIND" = uml ]; then
  ip link set vec0 name eth0
  ip link set vec1 name eth1
fi
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad # no second without a source address
echo "$GUEST_NAME" >/proc/sys/kernel/hostname
ip -force -batch - <<COMMANDS
link set lo up
link set eth0 mtu $GUEST_MTU up
link set eth1 up
addr add $GUEST_IPV4/24 dev eth0
addr add $GUEST_IPV6/64 dev eth0 nodad
addr add $GUEST_CONTROL/30 dev eth1
COMMANDS
rdma link add rxe0 type rxe netdev eth0

busybox nc -ll -p 77 -e "$GUEST_DIR/agent" &
until grep -q ':004D .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.01; done # 77, LISTEN
echo "GUEST READY $(uname -r)" >/dev/console
while :; do sleep 10000; done
