#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Cross-builds the arm64 packages on amd64, in a clean Debian 12 of its own with Debian's cross compiler and the arm64
# libraries that debian/control asks for. There lintian looks at the packages, they are installed, and their programs run
# under qemu-user. Not a part of ./check: it fetches some hundred MB.
#   sh tests/packages/cross.sh FOLDER
#     FOLDER   outside of the source tree: that of fresh.sh, with the Debian to begin with. The packages are in
#              FOLDER/cross/packages afterwards.
set -eu

if [ "${1-}" = --enter ]; then
	top=$2 src=$3
	m=$top/cross/root
	mkdir -p "$top/cross/upper" "$top/cross/work" "$m"
	mount --make-rprivate /
	mount -t overlay overlay -o "lowerdir=$top/debian,upperdir=$top/cross/upper,workdir=$top/cross/work" "$m"
	mount -t proc proc "$m/proc"
	mount -t tmpfs tmpfs "$m/tmp"
	mount --bind /dev "$m/dev"
	rm -rf "$m/root/src"
	git -c safe.directory='*' clone -q --no-hardlinks "$src" "$m/root/src/vpmu"
	cat >"$m/root/build.sh" <<-'END'
		set -e
		export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
		cd /root/src/vpmu
		dpkg --add-architecture arm64
		apt-get update -qq
		apt-get install -y -qq --no-install-recommends dpkg-dev crossbuild-essential-arm64
		apt-get build-dep -y -qq --no-install-recommends -a arm64 ./
		dpkg-buildpackage -a arm64 -B -us -uc
	END
	cat >"$m/root/look.sh" <<-'END'
		set -e
		export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root
		cd /root/src
		apt-get install -y -qq --no-install-recommends lintian qemu-user-static
		lintian --allow-root --fail-on error,warning --info ./*.changes
		apt-get install -y -qq --reinstall --no-install-recommends $(ls ./*_arm64.deb | grep -v dbgsym)
		for p in vpmud vpmu libvpmu0 libvpmu-dev; do dpkg -L $p:arm64; done | sort -u | while read -r f; do
			[ -f "$f" ] && [ ! -L "$f" ] || continue
			machine=$(readelf -h "$f" 2>/dev/null | sed -n 's/ *Machine: *//p' | sort -u)
			case ${machine:-none} in
			none) ;;
			AArch64) echo "$f: $machine" ;;
			*) echo "FAILED: $f is for $machine" && exit 1 ;;
			esac
		done
		run="qemu-aarch64-static"
		version=$(dpkg-parsechangelog -l vpmu/debian/changelog -S Version)
		for p in vpmu vpmud vpmu-exporter; do
			got=$($run /usr/bin/$p --version)
			[ "$got" = "$p $version" ] || { echo "FAILED: $p --version: $got" && exit 1; }
			echo "$got: started"
		done
		$run /usr/bin/vpmud --config vpmu/examples/vpmud.conf --check-config
		$run /usr/bin/vpmu-exporter --config vpmu/examples/vpmu-exporter.conf --check-config
		$run /usr/bin/vpmu metrics | grep -q ipc
		# A program of somebody else, with the library of the packages.
		export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
		aarch64-linux-gnu-gcc -std=gnu17 -O2 vpmu/tests/packages/program.c -o program $(pkg-config --cflags --libs libvpmu)
		got=$($run ./program)
		[ "$got" = "vcpu 100, tenant 150, unclaimed 0" ] || { echo "FAILED: the program: $got" && exit 1; }
		echo "a program with libvpmu: $got"
	END
	chroot "$m" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /root/build.sh
	exec chroot "$m" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /root/look.sh
fi

src=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# != 1 ] || [ ! -d "$1/debian" ]; then
	echo "cross.sh: expected the FOLDER of fresh.sh, which has made a Debian there" >&2
	exit 2
fi
top=$(cd "$1" && pwd)
unshare -m -p -f --kill-child sh "$0" --enter "$top" "$src"
rm -rf "$top/cross/packages"
mkdir "$top/cross/packages"
cp "$top"/cross/upper/root/src/*.deb "$top/cross/packages/"
for deb in "$top"/cross/packages/*.deb; do
	dpkg-deb -f "$deb" Package Version Architecture Depends | tr '\n' ' '
	echo
done
