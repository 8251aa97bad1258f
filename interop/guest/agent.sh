#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Serves one connection of the control channel: reads a line with a time limit
# in seconds and a command in base64, runs it, and ends with its status.
IFS=' ' read -r limit command
timeout --kill-after=1 "$limit" bash -c "$(base64 -d <<<"$command")" </dev/null 2>&1
printf '\n:status=%d' $?
