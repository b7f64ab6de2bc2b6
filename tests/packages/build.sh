#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Builds the packages from a copy of the source tree, without network, and looks at them: lintian, the files
# of each, and programs that use the library of libvpmu-dev. With "twice": builds a second time in another folder, time
# zone, language, umask and order of jobs, and the packages must be equal byte by byte (./check leaves that out: it
# compiles everything twice).
#   VPMU_BUILD=build sh tests/packages/build.sh [twice]
. "$(dirname "$0")/lib.inc"
export LC_ALL=C.UTF-8
need dpkg-buildpackage dh lintian dpkg-deb
twice=${1-}

# No package may be missing: many lines of dpkg-buildpackage are one here.
missing=$(cd "$src" && dpkg-checkbuilddeps 2>&1) || skip "${missing#*error: }"

# Once: changes to the tree in that time affect neither build.
mkdir -p "$work"
(cd "$src" && tar -cf "$work/source.tar" --exclude='./build*' --exclude=./.git .) || exit 1

copy() { # FOLDER: the source tree, with the packages of other runs beside it removed
	mkdir -p "$1/src" || exit 1
	rm -f "$1"/*.deb "$1"/*.changes "$1"/*.buildinfo
	# The objects of the last run stay: ninja compiles what has changed.
	find "$1/src" -mindepth 1 -maxdepth 1 ! -name 'obj-*' -exec rm -rf {} +
	tar -C "$1/src" -xf "$work/source.tar" || exit 1
}

make_packages() { # FOLDER JOBS
	copy "$1"
	# Without network: whatever the build wants from there fails.
	wrap=
	unshare -rn true 2>/dev/null && wrap="unshare -rn"
	(cd "$1/src" && DEB_BUILD_OPTIONS="parallel=$2" $wrap dpkg-buildpackage -b -nc -us -uc) \
		>"$1/log" 2>&1 && return 0
	echo "FAILED: dpkg-buildpackage"
	show "$1/log"
	exit 1
}

# A compiler cache may rename sources (CCACHE_BASEDIR), which debug information shows: none, and no old objects.
if [ "$twice" = twice ]; then
	unset CMAKE_C_COMPILER_LAUNCHER
	rm -rf "$work/build" "$work/build-again"
fi
make_packages "$work/build" "$(nproc)"
cd "$work/build" || exit 1
check "packages" "$(ls ./*.deb | sed 's|^./||; s/_.*//' | grep -v dbgsym | LC_ALL=C sort | tr '\n' ' ')" \
	"libvpmu-dev libvpmu0 vpmu vpmu-exporter vpmu-qemu vpmu-vmm vpmud "
check "the small tests of the build ran" "$(grep -c 'sh debian/smoke.sh' log)" 1

# ---- lintian ----
lintian --allow-root --fail-on error,warning --info ./*.changes >lintian.log 2>&1 || {
	check "lintian" failed "no errors, no warnings"
	show lintian.log
}

# ---- files: all that cmake installs, the configuration, no other ----
for p in vpmud vpmu vpmu-exporter vpmu-qemu vpmu-vmm libvpmu0 libvpmu-dev; do
	rm -rf "x-$p"
	dpkg-deb -x $p\_*.deb "x-$p" || exit 1
done
has() { # PACKAGE FILE...
	p=$1
	shift
	for f; do
		[ -s "x-$p/$f" ] || check "$p has $f" no yes
	done
}
units=lib/systemd/system # on Debian 12
[ -d x-vpmud/$units ] || units=usr/$units
has vpmud usr/bin/vpmud $units/vpmud.service $units/vpmud.socket \
	$units/vpmud.socket.d/10-vpmu-exporter.conf \
	usr/lib/sysusers.d/vpmud.conf usr/lib/tmpfiles.d/vpmud.conf etc/vpmu/vpmud.conf \
	usr/share/man/man8/vpmud.8.gz usr/share/man/man5/vpmud.conf.5.gz
has vpmu usr/bin/vpmu usr/share/man/man1/vpmu.1.gz usr/share/vpmu/metrics/core.metrics \
	usr/share/bash-completion/completions/vpmu usr/share/zsh/vendor-completions/_vpmu \
	usr/share/fish/vendor_completions.d/vpmu.fish
has vpmu-exporter usr/bin/vpmu-exporter $units/vpmu-exporter.service \
	$units/vpmu-exporter.socket usr/share/bash-completion/completions/vpmu-exporter \
	usr/lib/sysusers.d/vpmu-exporter.conf etc/vpmu/vpmu-exporter.conf usr/share/man/man8/vpmu-exporter.8.gz
has vpmu-qemu usr/bin/vpmu-qemu usr/share/man/man1/vpmu-qemu.1.gz etc/apparmor.d/abstractions/libvirt-qemu.d/vpmu-qemu
has vpmu-vmm usr/bin/vpmu-vmm usr/lib/vpmu/guest.elf usr/share/man/man1/vpmu-vmm.1.gz
check "no file is in two packages" "$(for p in x-*; do (cd "$p" && find . ! -type d); done |
	grep -v /usr/share/doc/ | sort | uniq -d)" ""
check "conffiles" "$(dpkg-deb --ctrl-tarfile vpmud_*.deb | tar -xOf - ./conffiles)" /etc/vpmu/vpmud.conf
check "vpmu-vmm knows the images" "$(x-vpmu-vmm/usr/bin/vpmu-vmm --no-socket \
	--vm 'name=g,engine=emulator,image=guest,args=run fib 20' 2>&1)" \
	"$(printf '[g] vcpu 0: fib 20 = 6765\nvm g: done, status 0')"

# ---- the library, as programs of others get it ----
rm -rf dev
mkdir dev
cp -a x-libvpmu0/. x-libvpmu-dev/. dev/
sh "$src/tests/packages/library.sh" "$PWD/dev/usr" || failures=$((failures + 1))

# ---- again ----
if [ "$twice" = twice ]; then
	(
		umask 027
		export TZ=Asia/Kathmandu LC_ALL=C LANG=C HOME="$work/build-again"
		make_packages "$work/build-again/elsewhere" 3
	) || exit 1
	for p in ./*.deb; do
		cmp "$p" "$work/build-again/elsewhere/$p" && continue
		check "$p: the same again" differs equal
		# Which of its files differ.
		for n in 1 2; do
			rm -rf "$work/build-again/x$n"
			[ $n = 1 ] && deb=$p || deb="$work/build-again/elsewhere/$p"
			dpkg-deb -R "$deb" "$work/build-again/x$n"
		done
		diff -rq --no-dereference "$work/build-again/x1" "$work/build-again/x2"
	done
	[ $failures != 0 ] || echo "two builds, in two folders: $(ls ./*.deb | wc -l) equal packages"
fi
[ $failures = 0 ]
