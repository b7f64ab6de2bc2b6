# SPDX-License-Identifier: GPL-2.0-or-later
# Builds for aarch64 with Debian's cross compiler, and runs what was built under qemu-user. The libraries
# come from tools/aarch64-libs. A shared library whose runtime package is not unpacked is a link that leads
# nowhere, so that its static one is taken: as unit and model tests need it, which are static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)

set(VPMU_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../../build-aarch64/sysroot)
set(CMAKE_FIND_ROOT_PATH ${VPMU_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_LIBRARY_SUFFIXES .so .a)
set(lib ${VPMU_SYSROOT}/lib/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--as-needed,--allow-shlib-undefined -L${lib} -L${VPMU_SYSROOT}/usr/lib/aarch64-linux-gnu")
set(CMAKE_C_FLAGS_INIT
    "-isystem ${VPMU_SYSROOT}/usr/include -isystem ${VPMU_SYSROOT}/usr/include/aarch64-linux-gnu")
set(ENV{PKG_CONFIG_LIBDIR} ${VPMU_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${VPMU_SYSROOT})
