# SPDX-License-Identifier: GPL-2.0-or-later
# fish completion of vpmu-vmm: its functions are in vpmu.fish beside this file.
functions -q __vpmu_complete_vmm; or source (status dirname)/vpmu.fish
complete -c vpmu-vmm -f -a '(__vpmu_complete_vmm)'
