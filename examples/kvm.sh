#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The guests of examples/sharing.sh on KVM: examples/kvm.sh [--json]
# Two tenants with a VM each. Events that this host's hardware cannot count are marked.
. "$(dirname "$0")/acts.sh"

[ -e /dev/kvm ] || cannot "there is no /dev/kvm; examples/sharing.sh shows the same on the emulator"
[ -r /dev/kvm ] && [ -w /dev/kvm ] || cannot "this user may not open /dev/kvm"
note "The same guests on /dev/kvm (2 tenants; events this host's hardware cannot count are marked):"
act examples/demo-kvm.ini instructions,cycles,ref-cycles || die "the KVM act failed"
if [ "$json" = 1 ]; then
	print_json
else
	guest_table kvm-a 0
	note ""
	"$vpmu" stat --session demo | sed 's/^/    /'
fi
act_end
