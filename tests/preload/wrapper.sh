#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu-qemu with a program in QEMU's place that prints how it was started: tests/preload/wrapper.sh VPMU-QEMU TMP
# Bad input is one line, "vpmu-qemu: WHERE: ... expected ...", with QEMU not started and a status other than 0. QEMU that is
# only asked, as libvirt's probe does, gets its arguments and nothing of ours. Needs neither QEMU nor KVM.
set -u
run=$1 tmp=$2
bad=0
rm -rf "$tmp"
mkdir -p "$tmp/bin" && cd "$tmp" || exit 2
unset VPMU_PMU VPMU_GP VPMU_POLICY VPMU_ALLOW VPMU_DENY LD_PRELOAD
cat >bin/qemu-system-x86_64 <<'END'
#!/bin/sh
echo "started: $* ($(grep -m 1 -o vpmu-preload.so /proc/$$/maps))"
exit 5
END
chmod 755 bin/qemu-system-x86_64
mkdir -p bin2/qemu-system-x86_64 # a directory is no program
export ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" # a program that ends at once frees nothing
export PATH="$tmp/bin2:$tmp/bin:$PATH" VPMU_QEMU_CONFIG=/dev/null VPMU_VPMUD=none

wrong() {
	echo "FAILED: $*"
	bad=1
}

# refused STATUS LINE ARGUMENT...
refused() {
	want=$1 line=$2
	shift 2
	"$run" "$@" >out 2>err </dev/null
	got=$?
	[ $got = "$want" ] || wrong "$*: status $got, expected $want"
	[ ! -s out ] || wrong "$*: $(cat out)"
	[ "$(cat err)" = "vpmu-qemu: $line" ] || wrong "$*: $(cat err)
  expected: vpmu-qemu: $line"
}
program="expected QEMU's path, or its name in PATH"
gp='expected 6 for amd-core, 4 to 15 for amd-v2, 2 to 8 for Intel'
refused 2 '--qemu: no value; expected --qemu PATH' --qemu
refused 2 '--config: no value; expected --config FILE' --config
for q in '' nope /nope /tmp /etc/passwd; do
	refused 1 "--qemu: \"$q\" is invalid; $program" --qemu "$q" -version
	VPMU_QEMU=$q refused 1 "VPMU_QEMU: \"$q\" is invalid; $program" -version
	printf '[default]\nqemu = %s\n' "$q" >conf
	refused 1 "conf:2: qemu: \"$q\" is invalid; $program" --config conf -version
done
refused 1 "--qemu: \"$run\" is vpmu-qemu itself; $program" --qemu "$run" -version
[ "$(PATH=/nope "$run" -version 2>&1)" = "vpmu-qemu: --qemu (not given): \"qemu-system-x86_64\" is invalid; $program" ] ||
	wrong "without QEMU in PATH"
refused 1 '--config: "" is invalid; expected a file' --config '' -version
VPMU_QEMU_CONFIG='' refused 1 'VPMU_QEMU_CONFIG: "" is invalid; expected a file' -version
refused 1 '/nope: No such file or directory' --config /nope -version
refused 1 "$tmp: Is a directory" --config "$tmp" -version
VPMU_GP=x refused 1 "VPMU_GP: gp: \"x\" is invalid; $gp" -machine none
config() { # TEXT LINE
	printf "$1" >conf
	refused 1 "conf:$2" --config conf -machine none
}
config '[default]\ngp = x\n' "2: gp: \"x\" is invalid; $gp"
config '[defalt]\n' '1: [defalt] is invalid; expected [default] or [vm NAME]'
config '[vm ]\n' '1: [vm ] is invalid; expected [default] or [vm NAME]'
config '[vm a]\nqemu = /x\n' '2: vm a/qemu is no key; expected pmu, gp, policy, allow, deny or vpmud, and qemu in [default]'
printf '[vm a]\nallow = nonesuch\n' >conf
"$run" --config conf -name a -accel kvm -cpu host >out 2>&1
[ $? = 1 ] && [ "$(grep -c . out)" = 1 ] && grep -q "^vpmu-qemu: allow: unknown event 'nonesuch'; expected " out || wrong "allow: $(cat out)"
chmod 755 . && cp "$run" vpmu-qemu && chmod 0 conf
if setpriv --reuid 65534 test -x "$PWD/vpmu-qemu" 2>/dev/null; then
	setpriv --reuid 65534 ./vpmu-qemu --config "$PWD/conf" -version >out 2>&1
	[ $? = 1 ] && [ "$(cat out)" = "vpmu-qemu: $PWD/conf: Permission denied" ] || wrong "a file that cannot be read: $(cat out)"
fi

# asked ARGUMENT...: started as it is
asked() {
	"$run" "$@" >out 2>&1 </dev/null
	got=$?
	[ $got = 5 ] && [ "$(cat out)" = "started: $* ()" ] || wrong "$*: status $got: $(cat out)"
}
asked -S -no-user-config -nodefaults -nographic -machine none,accel=kvm:tcg -qmp unix:/x,server=on,wait=off -pidfile /y -daemonize
asked -version
asked -cpu help
"$run" --help >out 2>err
[ "$(sed -n 1p out)" = 'Usage: vpmu-qemu [--qemu PATH] [--config FILE] QEMU-OPTION...' ] &&
	[ "$(tail -n 1 out)" = 'started: --help ()' ] && [ ! -s err ] || wrong "--help: $(cat out err)"

# A VM: with the library, if this build has it, or one line and as it is.
if [ -e "$(dirname "$run")/vpmu-preload.so" ]; then
	"$run" -accel accel=kvm -cpu host >out 2>&1
	[ "$(cat out)" = 'started: -accel accel=kvm -cpu host (vpmu-preload.so)' ] || wrong "-accel accel=kvm: $(cat out)"
fi
"$run" -accel tcg -cpu max >out 2>&1
[ "$(cat out)" = "vpmu-qemu: this VM gets no PMU from vpmu: expected -accel kvm
started: -accel tcg -cpu max ()" ] || wrong "-accel tcg: $(cat out)"
exit $bad
