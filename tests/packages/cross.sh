#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Cross-builds the arm64 packages on amd64, in a clean Debian 12 of its own with Debian's cross compiler and the arm64
# libraries that debian/control asks for. Not a part of ./check: it fetches some hundred MB.
#   sh tests/packages/cross.sh FOLDER
#     FOLDER   outside of the source tree: that of fresh.sh, whose Debian it begins with. The packages are in
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
	exec chroot "$m" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh /root/build.sh
fi

src=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# != 1 ] || [ ! -d "$1/debian" ]; then
	echo "cross.sh: accepted: the FOLDER of fresh.sh, which has made a Debian there" >&2
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
