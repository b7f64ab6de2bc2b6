#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The packages of build.sh in a clean Debian 12 that systemd runs: installed, started, upgraded from the version
# before with a session alive, removed, purged. What happens inside is in inside.sh.
#
# The Debian is made by debootstrap once, with the packages that ours depend on, and stays in build/packages/.
# Each run is on a fresh layer above it (overlayfs, in memory), in namespaces of its own, with a BPF file system and
# a /run of its own; nothing of it is left behind.
#   VPMU_BUILD=build sh tests/packages/container.sh
. "$(dirname "$0")/lib.inc"

# ---- inside of the namespaces: make the Debian's mounts and become its service manager ----
if [ "${2-}" = boot ]; then
	layer=$3
	m=$layer/root
	mount --make-rprivate / && mkdir "$layer/upper" "$layer/work" "$m" &&
		mount -t overlay overlay -o "lowerdir=$4,upperdir=$layer/upper,workdir=$layer/work" "$m" &&
		mount -t proc proc "$m/proc" && mount -t sysfs sysfs "$m/sys" &&
		mount -t cgroup2 cgroup2 "$m/sys/fs/cgroup" && mount -t bpf bpf "$m/sys/fs/bpf" &&
		mount -t tmpfs tmpfs "$m/run" && mount -t tmpfs tmpfs "$m/dev" &&
		mkdir "$m/dev/pts" "$m/dev/shm" &&
		mount -t devpts -o newinstance,ptmxmode=0666 devpts "$m/dev/pts" || exit 77
	ln -s pts/ptmx "$m/dev/ptmx"
	ln -s /proc/self/fd "$m/dev/fd"
	for d in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0"; do
		set -- $d
		mknod -m 666 "$m/dev/$1" c "$2" "$3" || exit 77
	done
	# The host's settings are not the container's to change.
	mount --bind "$m/proc/sys" "$m/proc/sys" && mount -o remount,ro,bind "$m/proc/sys" || exit 77
	cp -r "$layer/test" "$m/root/test" || exit 1
	cat >"$m/etc/systemd/system/inside.service" <<-'END'
		[Unit]
		After=basic.target
		[Service]
		Type=oneshot
		ExecStart=/bin/sh /root/test/inside.sh
		StandardOutput=append:/root/test/out
		StandardError=append:/root/test/out
		ExecStopPost=/bin/systemctl --no-block poweroff
		TimeoutStartSec=1200
	END
	mkdir -p "$m/etc/systemd/system/multi-user.target.wants"
	ln -s ../inside.service "$m/etc/systemd/system/multi-user.target.wants/"
	ln -sf /lib/systemd/system/multi-user.target "$m/etc/systemd/system/default.target"
	cd "$m" && pivot_root . mnt || exit 77
	exec chroot . /bin/sh -c 'umount -l /mnt; exec env -i container=vpmu-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd'
fi

# ---- what it needs ----
need debootstrap dpkg-deb unshare perl
[ "$(id -u)" = 0 ] || skip "not root: a clean Debian cannot be made and entered"
unshare -m -p -f -C -u -n true 2>/dev/null || skip "no namespaces for this user"
debs=$work/build
ls "$debs"/vpmud_*.deb >/dev/null 2>&1 || skip "no packages in $debs: build.sh makes them"

# ---- the Debian ----
# Alternatives ("systemd | ...") are served by the first one; our own packages are not fetched.
depends=$(for p in vpmud vpmu vpmu-vmm libvpmu0; do dpkg-deb -f "$debs/$p"_*.deb Depends; done |
	tr ',' '\n' | sed 's/|.*//; s/(.*//; s/ //g' | grep -v '^lib\{0,1\}vpmu' | sort -u)
clean=$work/debian
if [ "$(cat "$clean.packages" 2>/dev/null)" != "$depends" ]; then
	rm -rf "$clean" "$clean.new" "$clean.packages"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' 2>/dev/null | head -1)
	if ! debootstrap --variant=minbase --include="$(echo $depends | tr ' ' ,)" bookworm "$clean.new" \
		"${mirror:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1; then
		rm -rf "$clean.new"
		skip "debootstrap: $(tail -1 "$work/debootstrap.log")"
	fi
	rm -f "$clean.new"/var/cache/apt/archives/*.deb
	mv "$clean.new" "$clean" || exit 1
	echo "$depends" >"$clean.packages"
fi

# ---- a layer, with the packages and the version before ----
layer=$(mktemp -d) || exit 1
trap 'umount "$layer" 2>/dev/null; rmdir "$layer"' EXIT
mount -t tmpfs tmpfs "$layer" || skip "no tmpfs can be mounted"
mkdir "$layer/test" "$layer/test/new" "$layer/test/old"
cp "$debs"/vpmud_*.deb "$debs"/vpmu_*.deb "$debs"/vpmu-vmm_*.deb "$debs"/libvpmu0_*.deb "$layer/test/new/"
cp "$(dirname "$0")/inside.sh" "$src/README.md" "$layer/test/"

# The version before is the same packages with another version, in their control files and in what the
# programs say of themselves (three bytes of equal length in place of three).
now=$(dpkg-deb -f "$debs"/vpmud_*.deb Version)
before=$(printf '%.*s' "${#now}" 0.0.1)
for p in vpmud vpmu; do
	dpkg-deb -R "$layer/test/new/$p"_*.deb "$layer/x" || exit 1
	sed -i "s/^Version: .*/Version: $before/; s/(= $now)/(= $before)/" "$layer/x/DEBIAN/control"
	# Whole strings and ends of strings: not the version of somebody else's symbol, such as LIBBPF_0.1.0.
	NOW=$now BEFORE=$before perl -0pi -e 's/(?<![\w.])\Q$ENV{NOW}\E(?=\0)/$ENV{BEFORE}/g' "$layer/x/usr/bin/$p" || exit 1
	(cd "$layer/x" && find usr etc lib -type f 2>/dev/null | xargs md5sum >DEBIAN/md5sums)
	dpkg-deb -Znone -b "$layer/x" "$layer/test/old/" >/dev/null || exit 1
	rm -rf "$layer/x"
done
printf '%s %s\n' "$before" "$now" >"$layer/test/versions"

unshare -m -p -f -C -u -n --kill-child sh "$0" "" boot "$layer" "$clean" >"$layer/boot.log" 2>&1
rc=$?
out=$layer/upper/root/test/out
if [ ! -s "$out" ]; then
	[ -s "$layer/boot.log" ] && show "$layer/boot.log"
	skip "no systemd can be started in namespaces here (status $rc)"
fi
grep '^# SKIP' "$out"
if ! grep -qx 'inside: all done' "$out"; then
	echo "FAILED: inside of the Debian"
	cat "$out"
	exit 1
fi
grep '^FAILED' "$out" && cat "$out" && exit 1
grep '^ok' "$out"
exit 0
