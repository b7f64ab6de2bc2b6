#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Runs the programs of a package build: debian/smoke.sh BUILD
set -eu
bin=$1/bin
"$bin/vpmud" --config examples/vpmud.conf --check-config
"$bin/vpmu-exporter" --config examples/vpmu-exporter.conf --check-config
"$bin/vpmu" metrics | grep -q ipc
if [ -e "$bin/vpmu-vmm" ]; then
	got=$("$bin/vpmu-vmm" --no-socket --vm 'name=g,engine=emulator,image=guest,args=run fib 20' 2>&1)
	[ "$got" = "$(printf '[g] vcpu 0: fib 20 = 6765\nvm g: done, status 0')" ] || {
		echo "the guest's output: $got" >&2
		exit 1
	}
fi
