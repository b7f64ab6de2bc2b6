#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What container.sh runs inside of a clean Debian, as root, under systemd. Its output is the test's.
. /root/test/inside.inc
read -r before now <versions
cgroups=/sys/fs/cgroup

state() { systemctl is-active "$1"; }
files() { # all files, but those that change by themselves, or that dpkg and apt keep of every package
	find / -xdev \( -path /root/test -o -path /var/log -o -path /var/cache -o -path /tmp -o -path /var/tmp \
		-o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/lib/systemd \) -prune -o -print | sort
}
in_acme() { # COMMAND...: in the cgroup of the tenant
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' $cgroups/acme.slice "$@"
}
faults() { # N programs, each with 20 page faults or more
	in_acme sh -c 'i=0; while [ $i -lt '"$1"' ]; do /bin/true; i=$((i + 1)); done'
}
value() { # of the session, in the tenant
	vpmu stat --session day -x, | awk -F, '$3 == "page-faults" && $4 == "/acme" { print $1 }'
}
at_least() { [ "${2:-0}" -ge "$3" ] 2>/dev/null || check "$1" "$2" "at least $3"; }

files >files.0
getent group >groups.0
getent passwd >users.0

# ---- install the version before ----
must apt-get install -y --no-install-recommends ./old/vpmud_*.deb ./old/vpmu_*.deb || exit 1
check "version of vpmud" "$(vpmud --version)" "vpmud $before"
# A kernel that permits no BPF program lets no vpmud start. It remains to see that it goes again.
starts=yes
journalctl -u vpmud -o cat >log
if grep -Eq 'does not permit|no BTF' log; then
	echo "# SKIP starting, upgrading: $(grep -Em1 'does not permit|no BTF' log)"
	starts=
fi
if [ -n "$starts" ]; then
check "vpmud.socket" "$(state vpmud.socket)" active
check "vpmud.service" "$(state vpmud.service)" active
check "they are enabled" "$(systemctl is-enabled vpmud.service vpmud.socket | sort -u)" enabled
check "the group" "$(getent group vpmu | cut -d: -f1)" vpmu
check "the socket" "$(stat -c '%A %U %G' /run/vpmu/vpmud.sock)" "srw-rw---- root vpmu-exporter"
check "files as packaged" "$(dpkg --verify vpmud vpmu)" ""
# Rights that the unit removes from the running process.
pid=$(systemctl show -P MainPID vpmud)
rights() { sed -n "s/^$1:[^0-9a-f]*//p" "/proc/$pid/status"; }
check "no new privileges" "$(rights NoNewPrivs)" 1
check "system call filters" "$(rights Seccomp)" 2
# 2 DAC_READ_SEARCH, 19 SYS_PTRACE, 38 PERFMON, 39 BPF
check "capabilities" "$(rights CapBnd) $(rights CapEff)" "000000c000080004 000000c000080004"
check "mounted read-only for it: /, /sys" "$(awk '$2 == "/" || $2 == "/sys" { how[$2] = substr($4, 1, 2) }
	END { print how["/"], how["/sys"] }' "/proc/$pid/mounts")" "ro ro"
echo "ok: installed and started, $before"

# ---- count ----
mkdir $cgroups/acme.slice
printf '[tenant /acme]\ncgroup = /acme.slice\n' >>/etc/vpmu/vpmud.conf
must systemctl reload vpmud || journalctl -u vpmud -n 5
must vpmu list
check "the tenant" "$(vpmu list -j | grep -c '"path":"/acme"')" 1
if ! vpmu check -j | grep -q '"what":"vpmud may count".*"ok":true'; then
	echo "# SKIP counting, and upgrading with a session alive: $(vpmu check | grep 'vpmud may count')"
	counts=
elif ! vpmu attach day -e page-faults --for-each tenant >log 2>&1; then
	echo "# SKIP counting, and upgrading with a session alive: $(tail -1 log)"
	counts=
else
	counts=yes
	faults 50
	a=$(value)
	at_least "page faults before the upgrade" "$a" 1000
	check "it is pinned" "$(ls /sys/fs/bpf/vpmu | head -1 | wc -l)" 1
fi

# ---- upgrade, with the session alive and its tenant at work ----
touch go
(while [ -e go ]; do faults 5; done) &
worker=$!
must apt-get install -y --no-install-recommends ./new/vpmud_*.deb ./new/vpmu_*.deb || exit 1
rm go
wait $worker
check "version of vpmud" "$(vpmud --version)" "vpmud $now"
check "vpmud.service after the upgrade" "$(state vpmud.service)" active
[ "$(systemctl show -P MainPID vpmud)" != "$pid" ] || check "the process" "the old one" "another one"
check "the configuration is the administrator's" "$(grep -c '^\[tenant /acme\]' /etc/vpmu/vpmud.conf)" 1
if [ -n "$counts" ]; then
	check "the session goes on" "$(vpmu sessions -j | grep -c '"session":"day"')" 1
	b=$(value)
	at_least "page faults after the upgrade" "$b" $((a + 100))
	faults 20
	at_least "page faults counted by the new one" "$(value)" $((b + 400))
	must vpmu conservation
	echo "ok: upgraded to $now with a session alive: $a page faults before, $(value) now"
fi

# ---- metrics ----
must apt-get install -y --no-install-recommends ./new/vpmu-exporter_*.deb
check "vpmu-exporter.socket, which listens on a port" \
	"$(systemctl is-enabled vpmu-exporter.socket) $(state vpmu-exporter.socket)" "disabled inactive"
check "the user of the metrics" "$(getent passwd vpmu-exporter | cut -d: -f1,7)" vpmu-exporter:/usr/sbin/nologin
must systemctl enable --now vpmu-exporter.socket
perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("127.0.0.1:9797") or die "$!\n";
	print $s "GET /metrics HTTP/1.0\r\n\r\n"; print <$s>' >scraped 2>&1
at_least "series of the metrics" "$(grep -c '^vpmu_' scraped)" 20
check "its sessions" "$(vpmu sessions -j | grep -c '"session":"vpmu-exporter')" 2
check "its user" "$(stat -c %U "/proc/$(systemctl show -P MainPID vpmu-exporter)")" vpmu-exporter
echo "ok: metrics by the package, $(grep -c '^vpmu_' scraped) series"

# ---- the commands of docs/building.md, as they stand there ----
must apt-get install -y --no-install-recommends ./new/vpmu-vmm_*.deb ./new/libvpmu0_*.deb
[ -z "$counts" ] || must vpmu detach day
sed -n '/^## Packages/,/^## [^P]/p' building.md | awk '/^```console.*container.sh/ { on = 1; next } /^```/ { on = 0 } on' >block
grep -q '^\$ ' block || check "commands in building.md" "$(cat block)" "some"
cd new || exit 1
# Numbers are any numbers, blanks are one blank, and a line "..." stands for any lines.
plain() { sed 's/[0-9][0-9,.]*/N/g; s/  */ /g; s/ $//'; }
n=0 command=
while IFS= read -r line; do
	case $line in
	'$ '*)
		n=$((n + 1))
		command=$(printf '%s' "${line#?? }" | sed 's/^\$ //; s/  *#.*//')
		sh -c "$command" >../shown 2>&1 </dev/null || check "building.md: $command" "$(tail -5 ../shown)" "status 0"
		plain <../shown >../shown.plain
		;;
	...) ;;
	*) grep -qxF -- "$(printf '%s\n' "$line" | plain)" ../shown.plain ||
		check "building.md: $command" "$(cat ../shown)" "$line" ;;
	esac
done <../block
cd ..
echo "ok: $n commands of building.md"

fi

# ---- remove: the configuration stays, nothing counts any more ----
[ -z "$starts" ] || must apt-get remove -y vpmu-exporter
[ -z "$starts" ] || check "its sessions end" "$(vpmu sessions -j | grep -c vpmu-exporter)" 0
must apt-get remove -y vpmud vpmu vpmu-vmm libvpmu0
check "vpmud.service" "$(state vpmud.service)" inactive
check "vpmud.socket" "$(state vpmud.socket)" inactive
check "the program" "$(ls /usr/bin/vpmud 2>/dev/null)" ""
check "the configuration" "$(ls /etc/vpmu | grep -v vpmu-exporter.conf)" vpmud.conf
check "pins" "$(ls -d /sys/fs/bpf/vpmu 2>/dev/null)" ""
check "/run/vpmu" "$(ls /run/vpmu 2>/dev/null)" ""

# ---- purge: as before ----
must dpkg --purge vpmu-exporter vpmud vpmu vpmu-vmm libvpmu0
files >files.1
check "files left or lost" "$(diff files.0 files.1)" ""
getent group >groups.1
check "groups left" "$(diff groups.0 groups.1)" ""
getent passwd >users.1
check "users left" "$(diff users.0 users.1)" ""
check "packages left" "$(dpkg-query -W -f '${Package} ${Status}\n' '*vpmu*' 2>/dev/null | grep -v ' unknown ')" ""
rmdir $cgroups/acme.slice
echo "ok: removed and purged"
echo 'inside: all done'
