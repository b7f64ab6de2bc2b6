/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the emulator has of AMD's SVM, and CPUID shows. */
#ifndef VMM_ENGINE_SVM_H
#define VMM_ENGINE_SVM_H

#define VMM_SVM_ASIDS 8u /* with 0, the host's: CPUID 8000000AH EBX */

#endif
