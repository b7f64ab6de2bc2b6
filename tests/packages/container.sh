#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The packages of build.sh in a clean Debian that systemd runs, of the release of this machine, on which they were built
# (CONTAINER_RELEASE=trixie: of another one, on which those in VPMU_BUILD were built): installed, started, upgraded from
# the version before with a session alive, removed, purged. What happens inside is in inside.sh. With "libvirt": on a
# host of Debian's libvirt, QEMU, Prometheus and prometheus-libvirt-exporter; what happens inside is in
# inside_libvirt.sh. With "qemu": on that host with /dev/kvm; inside_qemu.sh.
#
# The Debian is made by debootstrap once, with the packages that ours depend on, and stays in build/packages/; so does a layer
# above it with the host's packages, for "libvirt" and "qemu".
# Each run is on a fresh layer above it (overlayfs, in memory), in namespaces of its own, with a BPF file system and
# a /run of its own; nothing of it is left behind.
#   VPMU_BUILD=build sh tests/packages/container.sh [libvirt|qemu]
. "$(dirname "$0")/lib.inc"

# ---- inside of the namespaces: make the Debian's mounts and become its service manager ----
if [ "${1-}" = boot ]; then
	layer=$2
	m=$layer/root
	mount --make-rprivate / && mkdir "$layer/upper" "$layer/work" "$m" &&
		mount -t overlay overlay -o "lowerdir=$3,upperdir=$layer/upper,workdir=$layer/work" "$m" &&
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
		EnvironmentFile=-/root/test/settings
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

# ---- inside of a mount namespace: install packages in a layer above a Debian ----
if [ "${1-}" = install ]; then
	top=$2 lower=$3
	shift 3
	m=$top/root
	mkdir -p "$top/upper" "$top/work" "$m" && mount --make-rprivate / &&
		mount -t overlay overlay -o "lowerdir=$lower,upperdir=$top/upper,workdir=$top/work" "$m" &&
		mount -t proc proc "$m/proc" || exit 1
	apt-config dump | grep -i '^Acquire::.*proxy' >"$m/etc/apt/apt.conf.d/90proxy"
	printf '#!/bin/sh\nexit 101\n' >"$m/usr/sbin/policy-rc.d" # no service starts
	chmod 755 "$m/usr/sbin/policy-rc.d"
	export DEBIAN_FRONTEND=noninteractive DPKG_FORCE=unsafe-io
	chroot "$m" apt-get -q update -o APT::Update::Error-Mode=any &&
		chroot "$m" apt-get -q install -y --no-install-recommends "$@" && chroot "$m" apt-get clean || exit 1
	rm -rf "$m/etc/apt/apt.conf.d/90proxy" "$m/usr/sbin/policy-rc.d" "$m"/var/lib/apt/lists/*
	exit
fi

# ---- requirements ----
case ${1-} in
"") inside=inside.sh host=debian with= ;;
libvirt | qemu)
	inside=inside_$1.sh host=debian-libvirt
	with="dbus libpam-systemd libvirt-daemon-system systemd-container qemu-system-x86 prometheus prometheus-libvirt-exporter
		curl jq apparmor bpftool procps"
	;;
*)
	echo "container.sh: unknown \"$1\"; expected nothing, libvirt or qemu" >&2
	exit 2
	;;
esac
need debootstrap dpkg-deb unshare perl
[ "$(id -u)" = 0 ] || skip "not root: a clean Debian cannot be made and entered"
unshare -m -p -f -C -u -n true 2>/dev/null || skip "no namespaces for this user"
debs=$work/build
ls "$debs"/vpmud_*.deb >/dev/null 2>&1 || skip "no packages in $debs: build.sh makes them"

# ---- the Debian ----
# Alternatives ("systemd | ...") are served by the first one; our own packages are not fetched.
depends=$(for p in vpmud vpmu vpmu-exporter vpmu-vmm vpmu-qemu libvpmu0; do dpkg-deb -f "$debs/$p"_*.deb Depends; done |
	tr ',' '\n' | sed 's/|.*//; s/(.*//; s/ //g' | grep -v '^lib\{0,1\}vpmu' | sort -u)
clean=$work/debian
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
release=${CONTAINER_RELEASE-$here}
want="$release: $depends"
if [ "$(cat "$clean.packages" 2>/dev/null)" != "$want" ]; then
	rm -rf "$clean" "$clean.new" "$clean.packages"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $here" 2>/dev/null | head -1)
	if ! DPKG_FORCE=unsafe-io debootstrap --variant=minbase --include="$(echo $depends | tr ' ' ,)" "$release" "$clean.new" \
		"${mirror:-http://deb.debian.org/debian}" >"$clean.log" 2>&1; then
		rm -rf "$clean.new"
		skip "debootstrap: $(tail -1 "$clean.log")"
	fi
	rm -f "$clean.new"/var/cache/apt/archives/*.deb
	mv "$clean.new" "$clean" || exit 1
	echo "$want" >"$clean.packages"
fi
if [ -n "$with" ]; then
	top=$work/$host
	if [ "$(cat "$top.packages" 2>/dev/null)" != "$want $with" ] || [ "$clean.packages" -nt "$top.packages" ]; then
		rm -rf "$top" "$top.packages"
		unshare -m sh "$0" install "$top" "$clean" $with >"$top.log" 2>&1 || skip "apt-get: $(grep '^E:' "$top.log" | head -1)"
		echo "$want $with" >"$top.packages"
	fi
	clean=$top/upper:$clean
fi

# ---- a layer, with the packages and the version before ----
layer=$(mktemp -d) || exit 1
pid=
leave() {
	# unshare(1) ignores SIGTERM; what it has started dies with it.
	[ -z "$pid" ] || { kill -9 "$pid" && wait "$pid"; } 2>/dev/null
	tries=600 # 60 s
	while grep -qs 'populated 1' "$cgroup/cgroup.events" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
	umount "$layer" 2>/dev/null
	rmdir "$layer"
	find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
	[ -z "$lent" ] || echo "-$lent" >"$cg2/cgroup.subtree_control"
	[ $tries -gt 0 ] || { echo "FAILED: processes are left in $cgroup"; exit 1; }
}
trap leave EXIT
trap "exit 1" HUP INT TERM
mount -t tmpfs tmpfs "$layer" || skip "no tmpfs can be mounted"

# A cgroup that is the root inside: a service manager removes all empty cgroups when it ends. libvirt wants a
# controller there, whichever.
cg2=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
cgroup=$cg2/vpmu-container-$$ lent=
mkdir "$cgroup" 2>/dev/null || skip "no cgroup can be made: $cgroup"
if [ $host = debian-libvirt ] && [ -z "$(cat "$cgroup/cgroup.controllers")" ]; then
	lent=$(cut -d' ' -f1 "$cg2/cgroup.controllers")
	echo "+$lent" 2>/dev/null >"$cg2/cgroup.subtree_control"
	[ -n "$(cat "$cgroup/cgroup.controllers")" ] || skip "cgroup2 has no controller here, and libvirt wants one"
fi
mkdir "$layer/test" "$layer/test/new" "$layer/test/old"
cp "$debs"/vpmud_*.deb "$debs"/vpmu_*.deb "$debs"/vpmu-exporter_*.deb "$debs"/vpmu-vmm_*.deb "$debs"/libvpmu0_*.deb "$debs"/vpmu-qemu_*.deb "$layer/test/new/"
cp "$(dirname "$0")/$inside" "$layer/test/inside.sh" &&
	cp "$(dirname "$0")/inside.inc" "$src/docs/building.md" "$src/docs/operator-guide.md" "$src/docs/guest-guide.md" "$layer/test/" || exit 1
[ $inside != inside_qemu.sh ] || cp "$build/tests/preload/guest.elf" "$layer/test/" || exit 1

# The version before is the same packages with another version, in their control files and in the version that the
# programs print (three bytes of equal length in place of three).
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
printf 'VMS=%s\nKILLS=%s\nPLANT=%s\n' "${VMS-}" "${KILLS:-10}" "${PLANT-}" >"$layer/test/settings"

sh -c 'echo $$ >"$0/cgroup.procs" && exec unshare -m -p -f -C -u -n --kill-child sh "$@"' \
	"$cgroup" "$0" boot "$layer" "$clean" >"$layer/boot.log" 2>&1 &
pid=$!
wait $pid
rc=$?
pid=
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
