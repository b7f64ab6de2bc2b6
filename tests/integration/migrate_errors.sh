# SPDX-License-Identifier: GPL-2.0-or-later
# vm save and vm restore: refusals, in one line each, without effects.
set -u
. "$(dirname "$0")/cli_lib.inc"

refused() { # WHAT PATTERN COMMAND...
	what=$1 pattern=$2
	shift 2
	out=$("$@" 2>&1)
	check "status of $what" "$([ $? -ne 0 ] && echo refused)" refused
	check "lines of $what" "$(printf '%s\n' "$out" | wc -l)" 1
	check_match "$what" "$out" "$pattern"
}
ask() { # JSON: through the CLI's socket, for what the CLI does not send
	printf '%s\n' "$1" | perl -MIO::Socket::UNIX -e '
		my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "$ARGV[0]: $!";
		print $s <STDIN>;
		$s->shutdown(1);
		print <$s>' "$VPMU_SOCKET"
}

start_server --snapshot-dir "$dir" --vm "$(vm web tenant=/acme,vcpus=2 spin)" --vm "$(vm done x=1 "run loop 3" | sed s/x=1/vcpus=1/)"
f=$dir/web.snap
wait_state done done

# ---- saving
refused "no such VM" 'no VM "wob"' "$vpmu" vm save wob "$f"
refused "a VM that has ended" 'vm done: it has ended' "$vpmu" vm save done "$f"
refused "no such directory" "No such file" "$vpmu" vm save web "$dir/none/web.snap"
mkdir "$dir/sub"
refused "a directory" 'not a regular file' "$vpmu" vm save web "$dir/sub"
refused "a file elsewhere" "vm: FILE .*/dev/null.*expected a name of a file in $dir, the server's --snapshot-dir" \
	"$vpmu" vm save web /dev/null
refused "a name that only begins so" "expected a name of a file in $dir" "$vpmu" vm save web "${dir}xnew.snap"
refused "a way out" 'none of them \. or \.\.' "$vpmu" vm save web "$dir/sub/../../out"
ln -s / "$dir/sub/root"
refused "a link on the way" 'root: not a directory, or a symbolic link' "$vpmu" vm save web "$dir/sub/root/x"
check "nothing was written elsewhere" "$(ls /x "$dir/../out" 2>/dev/null)" ""
ln -s /dev/null "$dir/link"
refused "a link" 'not a regular file' "$vpmu" vm save web "$dir/link"
echo precious >"$dir/other"
refused "somebody's file" 'exists and is not a snapshot' "$vpmu" vm save web "$dir/other"
check "somebody's file is whole" "$(cat "$dir/other")" precious
mkdir "$dir/small"
if mount -t tmpfs -o size=64k none "$dir/small" 2>/dev/null; then
	on_exit="umount $dir/small"
	refused "a file system without room" 'No space left' "$vpmu" vm save web "$dir/small/w.snap"
	check "nothing is left there" "$(ls -A "$dir/small")" ""
else
	echo "# SKIP a full file system: no tmpfs can be mounted"
fi
check_match "after a failed save it goes on" "$("$vpmu" list -j)" '"vm":"web".*"state":"running"'
check_match "a relative path" "$(ask '{"cmd":"vm-save","name":"web","file":"web.snap"}')" \
	'"saved": *true'
"$vpmu" resume web
rm "$dir/web.snap"
check_match "an unknown field" \
	"$(ask '{"cmd":"vm-save","name":"web","file":"/x","mode":1}')" 'mode: unknown field'
check_match "no file" "$(ask '{"cmd":"vm-restore"}')" 'file: '
check "nothing is left behind" "$(find "$dir" -name '*.snap' -o -name '*.tmp')" ""

# ---- a good one, replaced by another good one, from the working directory
(cd "$dir" && "$vpmu" vm save web web.snap) || exit 1
check_match "it waits" "$("$vpmu" list -j)" '"vm":"web".*"state":"paused"'
"$vpmu" vm save web "$f" || exit 1
"$vpmu" resume web
check_match "it goes on here" "$("$vpmu" list -j)" '"vm":"web".*"state":"running"'

# ---- restoring
nodes() { "$vpmu" list -j | grep -c '"kind":"vm"'; }
before=$(nodes)
refused "the name is taken" 'vm web: there is a VM of that name' "$vpmu" vm restore "$f" trust=yes
refused "a bad name" 'name: "a/b"' "$vpmu" vm restore "$f" name=a/b
refused "a bad tenant" 'tenant: "acme"' "$vpmu" vm restore "$f" name=b tenant=acme
refused "a key that is none" 'image: unknown field' "$vpmu" vm restore "$f" image=/x
refused "trust" 'trust: "maybe" is invalid; expected yes or no' "$vpmu" vm restore "$f" trust=maybe
refused "more than was said" 'the file requests policy=full tenant=/acme; expected .*or trust=yes' "$vpmu" vm restore "$f" name=b
refused "more memory than was said" 'the file requests memory=16M; expected' "$vpmu" vm restore "$f" name=b trust=yes memory=8M
refused "no file" 'No such file' "$vpmu" vm restore "$dir/none" name=b
refused "a directory" 'not a regular file' "$vpmu" vm restore "$dir/sub" name=b
refused "a device" "expected a name of a file in $dir" "$vpmu" vm restore /dev/zero name=b
refused "a link to a device" 'a symbolic link, not a regular file' "$vpmu" vm restore "$dir/link" name=b
mkfifo "$dir/fifo"
refused "a pipe" 'not a regular file' "$vpmu" vm restore "$dir/fifo" name=b
: >"$dir/bad"
refused "an empty file" 'the file ends here' "$vpmu" vm restore "$dir/bad" name=b trust=yes
head -c 100000 /dev/urandom >"$dir/bad"
refused "noise" 'bad: not a snapshot; expected a file that vm save has written' "$vpmu" vm restore "$dir/bad" name=b trust=yes
cp "$image" "$dir/img"
refused "an image" "not a snapshot" "$vpmu" vm restore "$dir/img" name=b
size=$(stat -c %s "$f")
for n in 7 15 16 20 28 200 2000 $((size / 2)) $((size - 5)) $((size - 1)); do
	head -c "$n" "$f" >"$dir/bad"
	refused "$n of $size bytes" "bad: offset [0-9]+: " "$vpmu" vm restore "$dir/bad" name=b trust=yes
done
for n in 3 9 13 18 25 40 300 900 3000 $((size / 2)) $((size - 10)) $((size - 2)); do
	cp "$f" "$dir/bad"
	printf 'X' | dd of="$dir/bad" bs=1 seek="$n" conv=notrunc status=none
	cmp -s "$f" "$dir/bad" && continue
	refused "byte $n changed" "bad" "$vpmu" vm restore "$dir/bad" name=b trust=yes
done
{ cat "$f"; echo; } >"$dir/bad"
refused "a byte more" 'bytes after the end' "$vpmu" vm restore "$dir/bad" name=b trust=yes
check "no VM came of it" "$(nodes)" "$before"

# ---- under another name and tenant; both go on: nothing forbids it
"$vpmu" vm restore "$f" name=twin tenant=/beta/eu policy=full || exit 1
check_match "a twin" "$("$vpmu" list -j)" '"vm":"twin".*"state":"running"'
check_match "in its tenant" "$("$vpmu" list -j)" '"kind":"vm".*"path":"/beta/eu".*"vm":"twin"'
check_match "and the first one" "$("$vpmu" list -j)" '"vm":"web".*"state":"running"'

# ---- a server that is paused starts nothing
"$vpmu" pause
"$vpmu" vm restore web.snap name=third trust=yes || exit 1
check_match "paused" "$("$vpmu" list -j)" '"vm":"third".*"state":"paused"'
"$vpmu" resume
check_match "resumed" "$("$vpmu" list -j)" '"vm":"third".*"state":"running"'

# ---- KVM
if out=$("$vpmu" vm add name=k engine=kvm image="$image" args=spin 2>&1); then
	"$vpmu" vm save k "$dir/k.snap" || exit 1
	"$vpmu" resume k
	check_match "it goes on" "$("$vpmu" list -j)" '"vm":"k".*"state":"running"'
	refused "an engine that was not named" 'the file requests engine=kvm; expected' \
		"$vpmu" vm restore "$dir/k.snap" name=k2 policy=full
	refused "another engine" 'engine: emulator is invalid; expected kvm, that of the file' \
		"$vpmu" vm restore "$dir/k.snap" name=k2 policy=full engine=emulator
	"$vpmu" vm restore "$dir/k.snap" name=k2 policy=full engine=kvm || exit 1
	check_match "it runs" "$("$vpmu" list -j)" '"vm":"k2".*"state":"running"'
else
	echo "# SKIP the KVM part: $out"
fi
# ---- a server that is busy for longer than other requests wait: a VM is not called lost and then there
"$vpmu" vm save twin "$f" && "$vpmu" vm rm twin || exit 1
kill -STOP "$server"
"$vpmu" vm restore "$f" name=late trust=yes &
late=$!
refused "another request meanwhile" 'does not answer; it may still execute the request later' "$vpmu" list
kill -CONT "$server"
wait $late
check "a restore waits" $? 0
check_match "and its VM is there" "$("$vpmu" list -j)" '"vm":"late".*"state":"running"'
stop_server
finish
