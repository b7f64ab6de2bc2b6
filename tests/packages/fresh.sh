#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The README's commands on a fresh Debian: a minimal one by debootstrap, a clone of the commits here, and nothing
# installed except by the commands themselves. Of ./check, only debian13.sh uses it: each run does all of it again.
#   sh tests/packages/fresh.sh FOLDER CASE COMMAND...
#     FOLDER   outside of the source tree, or in its folder build; the Debian and leftovers of the cases stay there
#     CASE     root     the first one: installs its requirements
#              none     another user than root, on a Debian without any of the packages
#              user     another user, with the packages that root's commands have installed
#              bare     root without /dev/kvm and without the capabilities for BPF, perf events and mounting
#     COMMAND  in the clone: ./demo, or ./check --quick
# "user" and "bare" begin with what "root" has left; "bare" goes on in root's clone, another user has one of his own.
# To clone anew, remove FOLDER/CASE.
# Prints the command's output. The exit status is the command's.
# It runs in mount, cgroup, IPC and host name namespaces, with the host's network and processes. FRESH_CCACHE=1 lends it
# the host's compiler cache, which changes its time and nothing else; neither does it that dpkg waits for no disk. FRESH_RELEASE=trixie makes another Debian than
# bookworm (12); a FOLDER has one.
set -eu

# ---- inside of the namespaces ----
if [ "${1-}" = --enter ]; then
	top=$2 case=$3 lower=$4 src=$5
	shift 5
	m=$top/$case/root
	mkdir -p "$top/$case/upper" "$top/$case/work" "$m"
	mount --make-rprivate /
	mount -t overlay overlay -o "lowerdir=$lower,upperdir=$top/$case/upper,workdir=$top/$case/work" "$m"
	mount -t proc proc "$m/proc"
	mount -t sysfs sysfs "$m/sys"
	mount -t cgroup2 cgroup2 "$m/sys/fs/cgroup"
	mount -t bpf bpf "$m/sys/fs/bpf"
	mount -t tmpfs tmpfs "$m/run"
	mount -t tmpfs tmpfs "$m/dev"
	mkdir "$m/dev/pts" "$m/dev/shm"
	mount -t devpts -o newinstance,ptmxmode=0666 devpts "$m/dev/pts"
	mount -t tmpfs -o mode=1777 tmpfs "$m/dev/shm"
	ln -s pts/ptmx "$m/dev/ptmx"
	ln -s /proc/self/fd "$m/dev/fd"
	for d in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
		printf '%s\n' "$d" | {
			read -r name major minor
			mknod -m 666 "$m/dev/$name" c "$major" "$minor"
		}
	done
	if [ "$case" != bare ] && [ -e /dev/kvm ]; then
		: >"$m/dev/kvm"
		mount --bind /dev/kvm "$m/dev/kvm"
	fi
	as="" home=/root
	case $case in
	none | user)
		home=/home/joe
		grep -q '^joe:' "$m/etc/passwd" || chroot "$m" useradd -m -s /bin/bash joe
		as="setpriv --reuid joe --regid joe --init-groups --inh-caps=-all --bounding-set=-all"
		;;
	bare) as="setpriv --bounding-set=-bpf,-perfmon,-sys_admin --inh-caps=-bpf,-perfmon,-sys_admin" ;;
	esac
	if [ ! -d "$m$home/vpmu" ]; then
		git -c safe.directory='*' clone -q --no-hardlinks "$src" "$m$home/vpmu"
		[ $home = /root ] || chroot "$m" chown -R joe:joe "$home/vpmu"
	fi
	cache=
	if [ -n "${FRESH_CCACHE-}" ]; then
		cc=$m/opt/ccache
		mkdir -p "$cc/lib" "$cc/cache"
		cp "$(command -v ccache)" "$cc/ccache.bin"
		# Its libraries and their loader: the Debian may have others.
		ldd "$cc/ccache.bin" | sed -n 's/^[^/]*\(\/[^ ]*\).*/\1/p' | xargs -I{} cp -L {} "$cc/lib/"
		printf '#!/bin/sh\nexec %s "$@"\n' \
			"/opt/ccache/lib/ld-linux-x86-64.so.2 --library-path /opt/ccache/lib /opt/ccache/ccache.bin" >"$cc/ccache"
		chmod +x "$cc/ccache"
		mount --bind "$(ccache -k cache_dir)" "$cc/cache"
		cache="CMAKE_C_COMPILER_LAUNCHER=/opt/ccache/ccache CCACHE_DIR=/opt/ccache/cache CCACHE_BASEDIR=$home/vpmu"
		cache="$cache CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=time_macros"
		[ $home = /root ] || cache="$cache CCACHE_READONLY=1 CCACHE_TEMPDIR=/tmp"
	fi
	# shellcheck disable=SC2086
	exec chroot "$m" $as env -i HOME=$home USER="${home##*/}" TERM=dumb DPKG_FORCE=unsafe-io $cache \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c 'cd "$0" && exec "$@"' "$home/vpmu" "$@"
fi

# ---- outside ----
if [ $# -lt 3 ]; then
	echo "fresh.sh: too few arguments; expected FOLDER root|none|user|bare COMMAND..." >&2
	exit 2
fi
src=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
top=$(cd "$1" && pwd) case=$2
shift 2
case $case in
root | none) ;;
user | bare)
	if [ ! -d "$top/root/upper" ]; then
		echo "fresh.sh: case $case begins with what case root has installed; run that one first" >&2
		exit 2
	fi
	;;
*)
	echo "fresh.sh: unknown case '$case'; expected root, none, user or bare" >&2
	exit 2
	;;
esac
case $top in
"$src"/build*/*) ;;
"$src" | "$src"/*)
	echo "fresh.sh: $top is in the source tree; expected a folder outside of it, or in build" >&2
	exit 2
	;;
esac
if [ "$(id -u)" != 0 ]; then
	echo "fresh.sh: a clean Debian can be made and entered by root only" >&2
	exit 2
fi
if [ ! -d "$top/debian" ]; then
	rm -rf "$top/debian.new"
	release=${FRESH_RELEASE-bookworm}
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $(. /etc/os-release && echo "$VERSION_CODENAME")" 2>/dev/null | head -1)
	mirror=${mirror:-http://deb.debian.org/debian}
	DPKG_FORCE=unsafe-io debootstrap --variant=minbase "$release" "$top/debian.new" "$mirror" >"$top/debootstrap.log"
	# Packages come from where this host gets Debian's.
	rm -f "$top/debian.new/etc/apt/sources.list"
	echo "deb $mirror $release main" >"$top/debian.new/etc/apt/sources.list.d/debian.list"
	apt-config dump | grep -i '^Acquire::.*proxy' >"$top/debian.new/etc/apt/apt.conf.d/90proxy" || :
	cp /etc/resolv.conf /etc/hosts "$top/debian.new/etc/"
	mv "$top/debian.new" "$top/debian"
fi
lower=$top/debian
case $case in user | bare) lower=$top/root/upper:$top/debian ;; esac
exec unshare -m -f -C -u -i --kill-child sh "$0" --enter "$top" "$case" "$lower" "$src" "$@"
