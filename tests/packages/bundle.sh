#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu check --bundle with a server: what is in the archive and what is not, its mode, and that nothing is left of
# one that could not be written. Also the remedies of vpmu check.
. "$(dirname "$0")/../integration/cli_lib.inc"
start_server --paused --vm "$(vm secret-vm tenant=/acme-corp/unit-7 'spin 1000000')" \
	--vm "$(vm counter tenant=/acme-corp/host2 'spin 1000000')"
"$vpmu" attach bill-them -e cycles --for-each vm || exit 1

# ---- remedies ----
"$vpmu" check >"$dir/check"
"$vpmu" check -j >"$dir/check.json"
check_match "a remedy for people" "$(sed -n '/^# what to do/,$p' "$dir/check")" '^.*KVM: sampling.*: engine=emulator'
check_match "and for programs" "$(grep '"KVM: sampling"' "$dir/check.json")" '"remedy":"engine=emulator'
check "rows that are fine have none" "$(grep '"ok":true' "$dir/check.json" | grep -c remedy)" 0

# ---- an archive ----
# A journal as it may be: vpmud's own lines and the service manager's (PID 1), with names in both.
fake=${VPMU_FAKE_JOURNAL:-$VPMU_BIN/../tests/vpmu-fake-journal.so}
cat >"$dir/journal" <<'END'
1 Starting vpmud.service - counts for acme-corp...
1 /etc/systemd/system/vpmud.service.d/acme-corp.conf:3: Unknown key name 'Slcie' in section 'Service', ignoring.
4711 VM secret-vm: its cgroup /machine.slice/machine-qemu-1-secret-vm.scope is gone: No such file or directory
4711 tenant /acme-corp/unit-7: no counter
1 vpmud.service: Main process exited, code=exited, status=1/FAILURE
1 vpmud.service: Failed with result 'exit-code'.
1 vpmud.service: Killing process 815 (acme-corp-agent) with signal SIGKILL.
1 vpmud.service: Scheduled restart job, restart counter is at 3.
END
umask 0
(cd "$dir" && FAKE_JOURNAL=$dir/journal LD_PRELOAD=$fake "$vpmu" check --bundle report.tar.gz) >"$dir/said" ||
	check "status" 1 0
check_match "what it says" "$(cat "$dir/said")" '^report.tar.gz: 8 files, [0-9]+ bytes; names of tenants and VMs are repl'
check "its mode" "$(stat -c %a "$dir/report.tar.gz")" 600
tar -C "$dir" -xzf "$dir/report.tar.gz" || check "tar reads it" no yes
check "files" "$(cd "$dir/vpmu-report" && LC_ALL=C ls | tr '\n' ' ')" \
	"README check.txt journal.txt processes.txt sessions.txt tree.txt versions.txt vpmud.conf "
cat "$dir"/vpmu-report/* >"$dir/all"
for name in secret acme-corp unit-7 host2 bill-them; do
	grep -F -- "$name" "$dir/all" >"$dir/leak" && check "the name $name" "$(cat "$dir/leak")" "not there"
done
journal=$(cat "$dir/vpmu-report/journal.txt")
check "lines of the journal" "$(printf '%s\n' "$journal" | grep -c '^2023-11-14T22:13:20Z \[')" 8
check_match "what the service manager says is there" "$journal" \
	"\\[1\\] vpmud.service: Main process exited, code=exited, status=1/FAILURE\$"
check_match "and this" "$journal" "\\[1\\] vpmud.service: Failed with result 'exit-code'.\$"
check_match "and this; a VM is called counter" "$journal" '\[1\] vpmud.service: Scheduled restart job, restart (n-[0-9a-f]{8}|hidden) is at 3.$'
check_match "its files are not" "$journal" '\[1\] /n-[0-9a-f]*/|\[1\] /hidden/'
check "a VM whose name is a word" "$(grep -c '"vm":"counter"' "$dir/all")" 0
check "rows of VMs" "$(grep -c '"kind":"vm".*"vm":"n-[0-9a-f]*"\|"kind":"vm".*"vm":"hidden"' "$dir/vpmu-report/tree.txt")" 2
check "the same tenant has the same pseudonym" "$(sed -n 's/.*"path":"\(\/[^/"]*\)\/.*/\1/p' \
	"$dir/vpmu-report/tree.txt" | sort -u | wc -l)" 1
check_match "rows of check" "$(cat "$dir/vpmu-report/check.txt")" '^no +kvm KVM: sampling: perf events of vCPU threads are not'
check_match "remedies" "$(cat "$dir/vpmu-report/check.txt")" '^    remedy: engine=emulator'
check_match "events" "$(cat "$dir/vpmu-report/check.txt")" '^(yes|no) +kvm KVM: ref-cycles'
check_match "versions" "$(cat "$dir/vpmu-report/versions.txt")" "^$("$vpmu" --version)\$"
check_match "the server" "$(cat "$dir/vpmu-report/versions.txt")" '^server: vpmu-vmm '
check_match "capabilities of the server" "$(cat "$dir/vpmu-report/processes.txt")" '^CapEff:'

# ---- names, if asked for; a file is never replaced ----
check "it exists" "$("$vpmu" check --bundle "$dir/report.tar.gz" 2>&1; echo $?)" \
	"$(printf 'vpmu: check: --bundle: "%s" exists; accepted: the name of a new file\n1' "$dir/report.tar.gz")"
"$vpmu" check --bundle "$dir/named.tar.gz" --names >"$dir/said" || check "status" 1 0
FAKE_JOURNAL_ABORT=1 LD_PRELOAD=$fake "$vpmu" check --bundle "$dir/aborted.tar.gz" >/dev/null 2>&1 || check "an archive without a journal" "$?" 0
check "its journal" "$(tar -xOzf "$dir/aborted.tar.gz" vpmu-report/journal.txt)" "not known: signal 6 ended the process that read the journal"
FAKE_JOURNAL=$dir/journal LD_PRELOAD=$fake "$vpmu" check --bundle "$dir/named2.tar.gz" --names >/dev/null
check "names in the journal" "$(tar -xOzf "$dir/named2.tar.gz" vpmu-report/journal.txt | cut -d' ' -f3-)" \
	"$(cut -d' ' -f2- "$dir/journal")"
check "names in it" "$(tar -xOzf "$dir/named.tar.gz" vpmu-report/tree.txt | grep -c '"vm":"secret-vm"')" 1
check_match "it says so" "$(cat "$dir/said")" 'names of tenants and VMs are in it'
ln -s "$dir/elsewhere" "$dir/link"
check "a link is not followed" "$("$vpmu" check --bundle "$dir/link" >/dev/null 2>&1; echo $?) $(ls "$dir/elsewhere" 2>&1 | grep -c No)" "1 1"

# ---- what cannot be written leaves nothing ----
mkdir "$dir/d"
check_match "no such folder" "$("$vpmu" check --bundle "$dir/none/x" 2>&1)" 'No such file or directory$'
"$vpmu" check --bundle "$dir/d/" 2>/dev/null && check "a folder" accepted refused
(ulimit -f 1; "$vpmu" check --bundle "$dir/d/small") >/dev/null 2>"$dir/err" && check "a limit" accepted refused
check_match "a limit" "$(cat "$dir/err")" 'bundle: .*/small: File too large'
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=4k tmpfs "$dir/d" 2>/dev/null; then
	head -c 4096 /dev/zero >"$dir/d/fill"
	"$vpmu" check --bundle "$dir/d/full" 2>"$dir/err" && check "a full disk" accepted refused
	check_match "a full disk" "$(cat "$dir/err")" 'No space left'
	check "nothing is left there" "$(ls -A "$dir/d")" fill
	umount "$dir/d"
else
	echo "# SKIP a full disk: no tmpfs can be mounted"
fi
check "nothing is left" "$(ls -A "$dir/d")" ""
check "command lines" "$("$vpmu" check --names 2>&1; echo $?)" "$(printf 'vpmu: check: --names needs --bundle FILE\n2')"
"$vpmu" check --bundle "$dir/x" -j 2>/dev/null
check "-j" $? 2

stop_server

# ---- without a server: which places were tried, and what to do ----
# One that this user may not use. Not in /tmp, where vpmu takes only directories of its own user.
run=/run/vpmu-bundle-$$
forget_run() { rm -rf "$run"; }
if [ -e /run/vpmu/vpmud.sock ] || [ -e /run/vpmu/vpmu-vmm.sock ]; then
	echo "# SKIP a server of others: this host runs one of its own"
elif [ "$(id -u)" = 0 ] && setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null && mkdir -m 755 "$run"; then
	on_exit=forget_run
	mkdir -m 755 "$run/vpmu"
	own=$VPMU_SOCKET VPMU_SOCKET=$run/vpmu/vpmu-vmm.sock
	start_server
	cp "$vpmu" "$run/program" # the build may be where only root looks
	setpriv --reuid 65534 --regid 65534 --clear-groups env VPMU_SOCKET= XDG_RUNTIME_DIR="$run" \
		"$run/program" check >"$dir/check" 2>"$dir/err"
	check_match "a server of others" "$(cat "$dir/check")" \
		"^server +no +none answers: .*$run/vpmu/vpmu-vmm.sock \(Permission denied\)"
	check_match "its remedy" "$(cat "$dir/check")" '^server: only root, .* admin_group'
	stop_server
	VPMU_SOCKET=$own
else
	echo "# SKIP a server of others: not root, or no directory can be made in /run"
fi
if [ ! -e /run/vpmu/vpmud.sock ] && [ ! -e /run/vpmu/vpmu-vmm.sock ]; then
	VPMU_SOCKET= XDG_RUNTIME_DIR=$(printf '/tmp/\377\033x') "$vpmu" check >"$dir/check" 2>"$dir/err" || check "status" $? 0
	check_match "no server" "$(cat "$dir/check")" \
		'^server +no +none answers: /run/vpmu/vpmud.sock \(No such file or directory\), .*, /tmp/\?\?x/vpmu/'
	check_match "its remedy" "$(cat "$dir/check")" '^server: systemctl start vpmud; '
else
	echo "# SKIP no server: this host runs one"
fi
VPMU_SOCKET= "$vpmu" check --bundle "$dir/alone.tar.gz" >/dev/null 2>&1 || check "without a server" 1 0
finish
