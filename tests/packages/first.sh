#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# The first five minutes: the commands of README.md's "Five minutes on a host" on a fresh Debian, as they are typed there,
# and the seconds that each takes, from the packages to the first number, a report and the exporter's page; or those of the
# guest guide's "perf in a QEMU guest", from the package to a guest that counts and has taken a PMI (its guest is the one
# of tests/preload; container.sh has the page's libvirt).
#   sh tests/packages/first.sh FOLDER RELEASE [DEBS [host|guest]]
#     FOLDER   outside of the source tree, or in its folder build: the Debian by debootstrap stays there (fresh.sh)
#     RELEASE  bookworm (12) or trixie (13)
#     DEBS     the packages (default: build/packages/build, where build.sh makes them)
# The Debian is minimal and entered by chroot. So what systemd does after the installation is a line of its own, and
# sysctl, whose settings would be this host's, is not run. The packages that ours depend on are fetched from where this
# host gets Debian's.
set -u

# ---- inside of the Debian ----
if [ "${1-}" = --inside ]; then
	export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
	readme=$PWD/README.md guide=$PWD/docs/guest-guide.md what=$2
	cd /root/debs || exit 1
	now() { date +%s.%N; }
	begin=$(now) failed=0
	timed() { # NAME COMMAND...
		name=$1 t0=$(now)
		shift
		"$@" >/root/step.log 2>&1 </dev/null
		rc=$?
		t1=$(now)
		printf '%7.1f %7.1f  %s\n' "$(echo "$t1 $t0" | awk '{ print $1 - $2 }')" \
			"$(echo "$t1 $begin" | awk '{ print $1 - $2 }')" "$name"
		[ $rc = 0 ] || {
			failed=1
			echo "FAILED: status $rc"
			tail -20 /root/step.log | sed 's/^/    /'
		}
	}
	typed() { timed "$*" sh -c "$*"; }
	answers() { # COMMAND...: it succeeds at last. The limit is for what hangs.
		for _ in $(seq 3000); do
			"$@" >/root/step.log 2>&1 && return 0
			sleep 0.1
		done
		return 1
	}
	commands() { # of the block
		sed -n '/^## Five minutes on a host$/,/^## /p' "$readme" | sed -n 's/^\$ //p' | sed 's/  *#.*//'
	}
	apt-get update -q >/root/step.log 2>&1 || {
		echo "# SKIP no packages of this Debian: $(grep '^E:' /root/step.log | head -1)"
		exit 77
	}
	echo "seconds   total  command, on $(. /etc/os-release && echo "$PRETTY_NAME")"
	begin=$(now)
	if [ "$what" = guest ]; then
		typed 'apt-get install -y ./vpmu-qemu_*.deb'
		[ $failed = 0 ] || exit 1
		[ -w /dev/kvm ] || { echo "# SKIP no /dev/kvm"; exit 77; }
		command=$(sed -n '/^## Start: perf in a QEMU guest$/,/^### /s/.*`\(vpmu-qemu [^`]*\) \.\.\.`.*/\1/p' "$guide")
		# The rest is the user's own VM. This machine's KVM may not have all that -cpu host has.
		vm='-M pc -m 64 -nodefaults -display none -no-reboot -device isa-debug-exit,iobase=0xf4 -kernel guest.elf'
		timeout 300 qemu-system-x86_64 -accel kvm -cpu host $vm -serial file:/root/plain >/root/step.log 2>&1 </dev/null
		[ -s /root/plain ] || command="$command,-arch-capabilities"
		$command $vm -serial file:/root/guest >/root/qemu.log 2>&1 </dev/null &
		qemu=$!
		has() { grep -q "^$1" /root/guest; }
		timed "$command ...: its guest counts" answers has 'ok: it stands still'
		timed "(its guest has taken a PMI)" answers has 'ok: a PMI'
		kill $qemu
		wait $qemu
		cat /root/qemu.log
		exit $failed
	fi
	commands >/root/commands
	while read -r line; do
		case $line in
		apt-get*)
			typed "$(echo "$line" | sed 's/ install / install -y /')"
			[ $failed = 0 ] || exit 1
			setsid vpmud >/root/vpmud.log 2>&1 </dev/null &
			vpmud=$!
			timed "(vpmud answers; systemd has started it)" answers vpmu list
			;;
		*sysctl*) echo "      -       -  $line   (not run: the settings are this host's)" ;;
		'vpmu top'*)
			typed "$line -b -n 1"
			;;
		*'-- make') typed "$(echo "$line" | sed 's/make$/ls -R \/usr\/share/')" ;;
		'vpmu check; vpmu selftest')
			typed 'vpmu check || [ $? = 1 ]' # what cannot be counted here is status 1
			typed 'vpmu selftest'
			;;
		*)
			typed "$line"
			case $line in
			'vpmu stat --for-each'*)
				cp /root/step.log /root/first
				echo "                 ^ the first number: $(sed -n 's/^\/  *//p' /root/first | head -1)"
				;;
			esac
			;;
		esac
	done </root/commands
	typed "vpmu report -d 60 -o report.html"
	grep -q 'id="data">{' report.html || { echo "FAILED: no page"; failed=1; }
	typed "apt-get install -y ./vpmu-exporter_*.deb"
	# On a socket of its own: the ports are this host's.
	install -d -o vpmu-exporter /run/vpmu-exporter
	printf '[vpmu-exporter]\nlisten = unix:/run/vpmu-exporter/http\n' >/root/exporter.conf
	setsid vpmu-exporter -c /root/exporter.conf --user vpmu-exporter >/root/exporter.log 2>&1 </dev/null &
	exporter=$!
	page() {
		perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Peer => "/run/vpmu-exporter/http") or exit 1;
			print $s "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"; local $/; exit(<$s> !~ /<html/i)'
	}
	timed "(the exporter serves its page)" answers page
	kill $exporter $vpmud
	wait $exporter $vpmud 2>/dev/null
	exit $failed
fi

# ---- outside ----
src=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
if [ $# -lt 2 ]; then
	echo "first.sh: too few arguments; expected FOLDER bookworm|trixie [DEBS [host|guest]]" >&2
	exit 2
fi
what=${4-host}
case $what in
host | guest) ;;
*)
	echo "first.sh: '$what' is invalid; expected host or guest" >&2
	exit 2
	;;
esac
debs=${3-$src/build/packages/build}
ls "$debs"/vpmud_*.deb >/dev/null 2>&1 || {
	echo "# SKIP no packages in $debs: build.sh makes them"
	exit 77
}
top=$1
rm -rf "$top/root" # what an earlier run has installed
mkdir -p "$top/root/upper/root/debs" || exit 1
[ "$what" = host ] || cp "$src/build/tests/preload/guest.elf" "$top/root/upper/root/debs/" || exit 1
for p in vpmud vpmu vpmu-exporter vpmu-qemu; do
	cp "$debs/$p"_*.deb "$top/root/upper/root/debs/" || exit 1
done
FRESH_RELEASE=$2 exec sh "$src/tests/packages/fresh.sh" "$top" root sh tests/packages/first.sh --inside "$what"
