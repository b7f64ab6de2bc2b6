#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# What vpmu prints for answers of servers that this host does not have (two backends, a server that knows
# no backends), and for wrong answers: one error line, exit status 1, nothing printed of it.
. "$(dirname "$0")/cli_lib.inc"
. "$(dirname "$0")/answers.inc"
export LC_ALL=C.UTF-8 # trees have lines; in other locales vpmu draws them with |, ` and -

# ---- a CPU that does not answer: its counts are not current ----
answers <<END
attach {"session":"s","ok":true}
detach {"stalled":["pCPU 7 of backend emulator does not answer"],$(read_answer none "$(row 1 root 0 / "$emulator" 111 exact)" | cut -c2-)
END
out=$("$vpmu" stat -e cycles -d 0.01 2>"$dir/err")
check_match "stalled: the counts" "$out" '^ +111 '
check "stalled: the warning" "$(cat "$dir/err")" \
	'vpmu: warning: pCPU 7 of backend emulator does not answer; its counts since are missing'

# ---- two backends: rows of their own, never added ----
tree="$(row 1 root 0 / "$emulator" 111 modelled),$(row 2 root 0 / "$kvm" 7000 exact),$(
	row 3 tenant 1 /acme "$emulator" 110 modelled),$(row 4 tenant 1 /acme "$kvm" 6000 exact),$(
	row 5 tenant 2 /acme/web "$kvm" 5000 exact)"
vms="$(row 1 vm 1 /acme "$emulator\"vm\":\"web-1\"," 110 modelled),$(row 2 vm 1 /acme "$kvm\"vm\":\"k-1\"," 6000 exact)"
answers <<END
attach {"session":"s","ok":true}
read $(read_answer tenant "$tree")
detach $(read_answer tenant "$tree")
sharing {"backends":[{"backend":"emulator","consumers":9,"keys":3,"host-counters":4},{"backend":"kvm","consumers":5,"keys":2,"host-counters":2,"refused":"7"}],"ok":true}
conservation {"rows":[{"pcpu":0,"event":"cycles","hardware":"5","charged":"5","backend":"emulator"},{"pcpu":0,"event":"cycles","hardware":"8","charged":"8","backend":"kvm"}],"ok":true}
check {"rows":[{"what":"tenants are cgroups","ok":false,"why":"none"},{"what":"events","ok":true,"why":"all","backend":"emulator"},{"what":"events","ok":false,"why":"no PMU","backend":"kvm"}],"ok":true}
events {"events":[{"event":"cycles","desc":"core cycles","backends":[{"backend":"emulator","supported":true,"quality":"modelled"},{"backend":"kvm","supported":true,"quality":"exact"}]},{"event":"loads","desc":"loads","backends":[{"backend":"emulator","supported":true,"quality":"exact"},{"backend":"kvm","supported":false,"why":"no PMU"}]}],"ok":true}
list {"nodes":[{"kind":"root","path":"/","depth":0},{"kind":"tenant","path":"/acme","depth":1},{"kind":"vm","path":"/acme","depth":2,"vm":"web-1","vcpus":2,"state":"running","backend":"emulator"},{"kind":"vm","path":"/acme","depth":2,"vm":"k-1","vcpus":1,"state":"running","backend":"kvm"}],"ok":true}
sessions {"sessions":[{"session":"a","scope":"none","target":"/","keep":true,"nr-rows":2,"events":["cycles","loads"]}],"ok":true}
profiles {"profiles":[{"profile":"p","event":"cycles","target":"/","period":"100","lbr":false,"keep":false,"gone":false,"backend":"kvm"}],"ok":true}
captures {"captures":[{"capture":"c","target":"web-1","mode":"calls","keep":false,"gone":false,"backend":"emulator"}],"ok":true}
END
check "a tree for each backend" "$("$vpmu" stat --for-each tenant -d 0.01 | sed -n '4,9p')" \
'TENANT  BACKEND          cycles
/       emulator 111 (modelled)
└─acme  emulator 110 (modelled)
/       kvm               7,000
└─acme  kvm               6,000
  └─web kvm               5,000'
check "-x: the backend is a field" "$("$vpmu" stat --session s -x, | sed -n '1p;4p')" \
'111,,cycles,/,,,100,100.00,modelled,emulator,,
6000,,cycles,/acme,,,100,100.00,exact,kvm,,'
check "-j: every line has the backend" "$("$vpmu" stat --session s -j | grep -c '"backend":"\(emulator\|kvm\)"')" 5
check "-j: which" "$("$vpmu" detach s -j | sed -n 's/.*"tenant":"\(.*\)","backend":"\(.*\)","counter-value":"\([0-9]*\)".*/\1 \2 \3/p')" \
'/ emulator 111
/acme emulator 110
/ kvm 7000
/acme kvm 6000
/acme/web kvm 5000'
out=$("$vpmu" stat --for-each tenant -I 10 -d 0.05)
check_match "-I: a column" "$out" '^# +time +counts +unit +events +backend +tenant$'
check "-I: one heading" "$(printf '%s\n' "$out" | grep -c '^#')" 1
check_match "-I: in each line" "$out" '^ +1\.000000000 .* cycles +emulator +/acme( |$)'
out=$("$vpmu" top -b -n 1 -d 0.01)
check_match "top: a column" "$out" '^TENANT +BACKEND +VMS +CPU% +cycles$'
check "top: a tree for each backend" "$(printf '%s\n' "$out" | awk '/^ *\// || /^  / { print $1, $2 }' | sort)" \
'/ emulator
/ kvm
acme emulator
acme kvm
web kvm'
check "sharing" "$("$vpmu" sharing)" 'emulator: 9 consumers of 3 distinct events on 4 host counters
kvm: 5 consumers of 2 distinct events on 2 host counters; 7 refused, for want of a counter slot or of quota'
check "sharing -j" "$("$vpmu" sharing -j)" '{"backend":"emulator","consumers":9,"keys":3,"host-counters":4}
{"backend":"kvm","consumers":5,"keys":2,"host-counters":2,"refused":7}'
check "conservation" "$("$vpmu" conservation)" 'BACKEND  PCPU EVENT  HARDWARE CHARGED EQUAL
emulator    0 cycles        5       5 yes
kvm         0 cycles        8       8 yes'
check "conservation -j" "$("$vpmu" conservation -j | grep -c '"backend":"')" 2
check "check" "$("$vpmu" check | sed '1,2d; /^$/,$d')" 'BACKEND  WHAT   OK  WHY
emulator events yes all
kvm      events no  no PMU'
check "events" "$("$vpmu" events)" 'EVENT  ALIAS COUNTED(emulator) COUNTED(kvm) MEANING
cycles       modelled          exact        core cycles
loads        exact             no           loads'
check "list" "$("$vpmu" list)" 'NAME      KIND   VCPUS BACKEND  INFO
/         root                  
└─acme    tenant                
  ├─web-1 vm         2 emulator state=running
  └─k-1   vm         1 kvm      state=running'
check "sessions" "$("$vpmu" sessions)" 'NAME KIND    SCOPE TARGET ROWS KEEP BACKEND  EVENTS
a    session none  /         2 yes           cycles,loads
p    profile       /           no   kvm      cycles every 100
c    capture       web-1       no   emulator calls'

# ---- check: a remedy for each row that is not ok, with the rows that share it ----
answers <<END
check {"rows":[{"what":"events","ok":false,"why":"the kernel has no perf events"},{"what":"configuration","ok":false,"why":"line 2"},{"what":"PID namespace","ok":true,"why":"a"},{"what":"sampling","ok":false,"why":"the kernel has no perf events"},{"what":"a later row","ok":false,"why":"b"}],"ok":true}
END
out=$("$vpmu" check | sed '1,/^# what to do$/d')
check "remedies: two rows share one" "$(printf '%s\n' "$out" | head -n 2)" \
'events and 1 more: a kernel with CONFIG_PERF_EVENTS
configuration: correct the file at the line that is named, then vpmu reload'
check "remedies: it is printed once" "$(printf '%s\n' "$out" | grep -c ': a kernel with CONFIG_PERF_EVENTS$')" 1
check "remedies: none for a row that is ok, or not known" "$(printf '%s\n' "$out" | grep -c 'PID namespace\|a later row')" 0
check "remedies -j" "$("$vpmu" check -j | sed -n 's/.*"what":"\([^"]*\)".*"remedy":"\([^,"]*\).*/\1 \2/p' | grep '^events \|^sampling \|^configuration ')" \
'events a kernel with CONFIG_PERF_EVENTS
configuration correct the file at the line that is named
sampling a kernel with CONFIG_PERF_EVENTS'

# ---- check: the verdict first, one cause in one line, what is so by design apart ----
no_pmu='"ok":false,"why":"no hardware PMU (in a VM: its host gives it no vPMU)"'
answers <<END
check {"rows":[{"what":"tenants are cgroups","ok":false,"why":"none"},{"what":"cycles",$no_pmu},{"what":"cpu-clock","ok":true,"why":""},{"what":"loads",$no_pmu},{"what":"KVM: cycles",$no_pmu},{"what":"task-clock","ok":true,"why":""},{"what":"stores",$no_pmu},{"what":"slots","ok":false,"why":"no event of this meaning on this CPU"}],"ok":true}
END
"$vpmu" check >"$dir/out"
check_match "check: the verdict" "$(head -n 1 "$dir/out")" '^[2-9] problems: cycles and 2 more, KVM: cycles(,|$)'
check "check: one line for a cause" "$(sed '1,2d; /^$/,$d' "$dir/out")" \
'WHAT                 OK  WHY
cycles and 2 more    no  no hardware PMU (in a VM: its host gives it no vPMU); also loads, stores
cpu-clock and 1 more yes also task-clock
KVM: cycles          no  no hardware PMU (in a VM: its host gives it no vPMU)'
check_match "check: by design" "$(sed '1,/^# as designed/d; /^$/,$d' "$dir/out")" '^tenants are cgroups +none +--cgroup-root DIR'
check_match "check: by design" "$(sed '1,/^# as designed/d; /^$/,$d' "$dir/out")" '^slots +no event of this meaning'
check "check: no remedy for what is by design" "$(sed '1,/^# what to do/d' "$dir/out" | grep -c 'cgroups\|slots')" 0
check "check -j: every row" "$("$vpmu" check -j | grep -c '"what":"\(cycles\|loads\|stores\|slots\)"')" 4

# ---- report: the CPUs ----
on_cpu() { # SUPPORTED
	read_answer tenant "$(row 1 tenant 1 /acme "" 6000 exact | sed "s/\"supported\":true/\"supported\":$1/")"
}
report_with() { # ATTACH... with what is counted on one CPU as the last argument
	{
		echo 'events {"events":[{"event":"task-clock","desc":"","backends":[{"backend":"bpf","supported":true}]}],"ok":true}'
		while [ $# -gt 1 ]; do
			echo "attach $1"
			shift
		done
		echo "read $(on_cpu true)"
		echo "detach $(on_cpu "$1")"
	} >"$dir/lines"
	answers <"$dir/lines"
	"$vpmu" report -d 0.3 -o "$dir/page" >"$dir/out" 2>"$dir/err"
	check "report: status" $? 0
}
attached='{"session":"s","ok":true}'
cpus=$(getconf _NPROCESSORS_CONF)
if [ "$cpus" -le 16 ]; then
	report_with "$attached" true
	check "report: each row has its time on each CPU" "$(grep -c "{\"backend\":null,\"tenant\":\"/acme\",\"vm\":null,\"ns\":\[12000" "$dir/page")" 1
	check "report: the CPUs' sessions end with their reading" "$(grep -c '^detach' "$dir/answers.asked")" $((cpus * 2))
	report_with "$attached" false
	check "report: no time where it is not counted" "$(grep -c '"cpus":\[\]' "$dir/page")" 1
	report_with "$attached" "$attached" "$attached" '{"ok":false,"error":"no room"}' true
	check "report: no CPUs if there is no room for all" "$(grep -c '"cpus":\[' "$dir/page")" 0
	check "report: and none keep it" "$(grep -c '^detach' "$dir/answers.asked")" 1
fi

# ---- one backend: shown once ----
one="$(row 1 vm 1 /acme "$kvm\"vm\":\"k-1\"," 6000 exact)"
total='"backend":"kvm","profile":"p","event":"cycles","target":"/","period":"100","samples":"3","lost":"1","late-max":"0","count":"400","enabled-ns":"1","running-ns":"1","quality":"exact","supported":true,"other-rows":"0","nr-rows":1'
answers <<END
attach {"session":"s","ok":true}
read $(read_answer vm "$one")
read $(read_answer vm "$one")
read $(read_answer vm "$vms")
detach $(read_answer none "$one")
sharing {"backends":[],"ok":true}
conservation {"rows":[{"pcpu":0,"event":"cycles","hardware":"5","charged":"4","backend":"emulator"}],"ok":true}
check {"rows":[{"what":"x","ok":true,"why":"y","backend":"emulator"},{"what":"z","ok":true,"why":"none"}],"ok":true}
events {"events":[{"event":"cycles","desc":"core cycles","backends":[]},{"event":"loads","desc":"loads","backends":[{"backend":"kvm","supported":true,"quality":"exact"}]}],"ok":true}
hello {"pid":1,"ok":true}
list {"nodes":[],"ok":true}
profile-start {"profile":"p","left-out":["emulator"],"ok":true}
profile-start {"profile":"p","ok":true}
profile-stop {$total,"rows":[{"vm":"k-1","vcpu":0,"ip":"0x10","cpl":3,"samples":"2"},{"samples":"1"}],"chains":[{"vm":"k-1","vcpu":0,"cpl":3,"chain":["0x10",null],"samples":"2"},{"chain":[],"samples":"1"}],"other-chains":"0","unchained":"1","ok":true}
lbr-attach {"capture":"c","ok":true}
lbr-read {"rows":[{"vm":"k-1","vcpu":0,"backend":"kvm","entries":[{"from":"0x20","to":"0x10","type":"rel-call"},{"from":null,"to":"0x20","type":"rel-call","cycles":4}],"source":"capture","mode":"call-stack","filters":["user"],"depth":32,"total":"1234"}],"ok":true}
END
check_match "stat: in the title" "$("$vpmu" stat -d 0.01)" "^ Performance counter stats for '/' \(backend: kvm\):$"
out=$("$vpmu" stat --session s -I 10 -d 0.5)
check_match "-I: in the heading" "$out" '^# +time +counts +unit +events +vm  backend: kvm$'
check_match "-I: a new heading when a second backend comes" "$out" '^# +time +counts +unit +events +backend +vm$'
check "events" "$("$vpmu" events)" '# backend: kvm
EVENT  ALIAS COUNTED MEANING
cycles               core cycles
loads        exact   loads'
check "conservation" "$("$vpmu" conservation)" '# backend: emulator
PCPU EVENT  HARDWARE CHARGED EQUAL
   0 cycles        5       4 NO'
"$vpmu" conservation -j >/dev/null
check "conservation that does not hold: exit status" $? 1
check_match "check: who uses the counters" "$("$vpmu" check)" '^NMI watchdog '
check "check: a row without a backend" "$("$vpmu" check | sed '1,2d; /^$/,$d')" 'BACKEND  WHAT OK  WHY
emulator x    yes y
         z    yes none'
check "nothing counts yet" "$("$vpmu" sharing)" 'nothing to show: the server has no CPUs yet, or you may not see all tenants'
check "nothing counts yet, -j" "$("$vpmu" sharing -j)" ''
check "profile: what is left out" "$("$vpmu" profile -d 0.01 -j 2>&1 >/dev/null)" \
	'vpmu: profile: VMs that backend emulator counts are left out'
check_match "profile: in the heading" "$("$vpmu" profile -d 0.01 | head -n 1)" \
	'^# /: cycles every 100: 3 samples, 1 lost, 400 counted, backend: kvm$'
check "profile -j: in every line" "$("$vpmu" profile -d 0.01 -j | grep -c '"backend":"kvm"')" 3
check "profile --folded" "$("$vpmu" profile -d 0.01 --folded 2>"$dir/notes")" '/host;[no calls] 1
k-1;vcpu0;[unknown];0x10 2'
check "profile --folded: what is missing" "$(cat "$dir/notes")" \
'vpmu: 1 samples were lost and are missing: they arrived faster than the server reads them; raise the period with -c
vpmu: 1 samples have no call chain, because their guests record branches of their own'
check "lbr" "$("$vpmu" lbr -d 0.01)" 'k-1/0: captured, call-stack: 2 of 1,234 records, newest first, backend: kvm
    0x10
    0x20
    [unknown]'
check "lbr -j" "$("$vpmu" lbr -d 0.01 -j)" \
'{"kind":"lbr","vm":"k-1","vcpu":0,"backend":"kvm","source":"capture","mode":"call-stack","chain":["0x10","0x20","[unknown]"]}'
# Samples of a part of the time and of unknown tenants: in data for other tools, too.
some=$(printf %s "$total" | sed 's/"enabled-ns":"1","running-ns":"1","quality":"exact"/"enabled-ns":"100","running-ns":"41","quality":"partial","nobodys":"7"/')
answers <<END
hello {"pid":1,"ok":true}
list {"nodes":[],"ok":true}
profile-start {"profile":"p","ok":true}
profile-stop {$some,"rows":[{"samples":"1"}],"chains":[{"chain":[],"samples":"1"}],"other-chains":"0","ok":true}
END
for to in --folded --format=perf-script; do
	"$vpmu" profile -d 0.01 $to >/dev/null 2>"$dir/notes"
	check_match "profile $to: a part of the time" "$(cat "$dir/notes")" '^vpmu: the event had a counter in 41\.00% of the time: samples of the rest are missing$'
	check_match "profile $to: unknown tenants" "$(cat "$dir/notes")" '^vpmu: 7 samples are of unknown tenants; only a profile of / has them$'
done
"$vpmu" profile -d 0.01 --format=pprof -o "$dir/p.pb.gz" 2>"$dir/notes"
check_match "profile --format=pprof: in the comments" "$(gzip -dc "$dir/p.pb.gz" | tr -c '[:print:]' '\n')" '400 counted \(partial\) in 41\.00% of the time, 1 samples lost, 7 of unknown tenants'
answers <<END
hello {"pid":1,"ok":true}
list {"nodes":[],"ok":true}
lbr-attach {"capture":"c","ok":true}
lbr-read {"read":2,"with-records":1,"custom":1,"unread":0,"ok":true}
lbr-detach {"chains":[{"vm":"k-1","vcpu":0,"chain":["0x10","0x20",null],"samples":"3"},{"vm":"k-1","vcpu":1,"chain":[],"samples":"1"}],"nr-chains":2,"other-chains":"2","ok":true}
END
check "lbr --folded" "$("$vpmu" lbr -d 0.01 -n 3 --folded 2>"$dir/notes")" '[other chains] 2
k-1;vcpu0;[unknown];0x20;0x10 3
k-1;vcpu1;[no calls] 1'
check "lbr --folded: what is missing" "$(cat "$dir/notes")" \
	'vpmu: 3 of 6 readings are left out: the guests there record branches of their own'
# Long commands show their progress, on a terminal only.
progress=$(script -qec "$vpmu lbr -d 3 --folded" /dev/null </dev/null | tr '\r' '\n')
check_match "lbr: progress on a terminal" "$progress" '^vpmu: lbr: [0-9]+ of 100 readings'
"$vpmu" lbr -d 3 --folded >/dev/null 2>"$dir/notes"
check "lbr: no progress elsewhere" "$(grep -c ' of 100 ' "$dir/notes")" 0
# A server that needs a second for each reading: the command does not take 100 s for that. So it is for
# any number of VMs, because no other request depends on it.
answers <<END
hello {"pid":1,"ok":true}
list {"nodes":[],"ok":true}
lbr-attach {"capture":"c","ok":true}
lbr-read +1100 {"read":2,"with-records":1,"custom":0,"unread":0,"ok":true}
lbr-detach {"chains":[],"nr-chains":0,"other-chains":"4","ok":true}
END
check "lbr --folded: a slow server" "$("$vpmu" lbr -d 1 --folded 2>"$dir/notes")" '[other chains] 4'
check "lbr --folded: what it was asked" "$(uniq -c "$dir/answers.asked" | awk '{ print $1, $2 }')" '1 lbr-attach
1 hello
1 list
2 lbr-read
1 lbr-detach'
check "lbr --folded: what is left out" "$(cat "$dir/notes")" \
	'vpmu: lbr: the records were read 2 times instead of 100: the server did not answer in time'
"$vpmu" lbr -d 0.01 --folded -n 3 >/dev/null 2>"$dir/notes"
check "lbr --folded -n: none is left out" "$(grep -c lbr-read "$dir/answers.asked") $(wc -c <"$dir/notes")" '5 0'

# ---- a server that knows no backends; a backend whose rows begin further down ----
answers <<END
detach $(read_answer tenant "$(row 1 tenant 1 /acme "$kvm" 8 exact),$(row 2 tenant 2 /acme/web "$emulator" 7 exact),$(
	row 3 tenant 3 /acme/web/a "$emulator" 6 exact)")
read $(read_answer tenant "$(row 1 root 0 / "" 111 modelled),$(row 2 tenant 1 /acme "" 100 modelled)")
sharing {"consumers":9,"keys":3,"host-counters":4,"ok":true}
events {"events":[{"event":"cycles","desc":"core cycles","supported":true,"quality":"modelled"}],"ok":true}
END
out=$("$vpmu" stat --session s)
check "no column" "$(printf '%s\n' "$out" | sed -n '4,6p')" 'TENANT cycles (modelled)
/                    111
└─acme               100'
check "a backend whose rows begin further down" "$("$vpmu" detach s | sed -n '4,7p')" \
'TENANT    BACKEND  cycles
/acme/web emulator      7
└─a       emulator      6
/acme     kvm           8'
check "no word of it" "$(printf '%s\n' "$out" | grep -c backend)" 0
check "-x: an empty field" "$("$vpmu" stat --session s -x, | head -n 1)" '111,,cycles,/,,,100,100.00,modelled,,,'
check "-j: no field" "$("$vpmu" stat --session s -j | grep -c backend)" 0
check "sharing" "$("$vpmu" sharing)" '9 consumers of 3 distinct events on 4 host counters'
check "sharing -j" "$("$vpmu" sharing -j)" '{"consumers":9,"keys":3,"host-counters":4}'
check_match "events" "$("$vpmu" events)" '^cycles +modelled +core cycles$'

# ---- vpmud's /host has VMs, and work without one ----
no_samples() { # NODES WHY
	answers <<END
hello {"pid":1,"ok":true}
list {"nodes":[$1],"ok":true}
profile-start {"profile":"p","ok":true}
profile-stop {"backend":"bpf","profile":"p","event":"cpu-clock","target":"/host","period":"100","samples":"0","lost":"0","late-max":"0","count":"0","enabled-ns":"0","running-ns":"0","quality":"exact","supported":true,"other-rows":"0","nr-rows":0,"rows":[],"ok":true}
END
	check "no samples: $2" "$("$vpmu" profile -d 0.01 -e cpu-clock /host 2>&1 >/dev/null)" "vpmu: profile: no samples of /host: $2"
}
no_samples "" "nothing of it ran, and it has no VMs"
no_samples '{"kind":"vm","path":"/host","depth":2,"vm":"a","vcpus":1,"state":"running"}' "nothing of it ran in that time"

# ---- wrong answers ----
wrong() { # CMD ANSWER MESSAGE ARG...: after the right answers to attach, hello and list
	local cmd=$1 answer=$2 message=$3
	shift 3
	answers <<END
$cmd $answer
attach {"session":"s","ok":true}
hello {"pid":1,"ok":true}
list {"nodes":[],"ok":true}
sessions {"sessions":[],"ok":true}
profiles {"profiles":[],"ok":true}
captures {"captures":[],"ok":true}
profile-start {"profile":"p","ok":true}
lbr-attach {"capture":"c","ok":true}
END
	"$vpmu" "$@" >"$dir/out" 2>"$dir/err"
	check "$* and $answer: exit status" $? 1
	check "$* and $answer: nothing is printed" "$(cat "$dir/out")" ""
	check "$* and $answer: one line" "$(wc -l <"$dir/err")" 1
	check_match "$* and $answer: it says what" "$(cat "$dir/err")" "^vpmu: .*$message"
}
protocol="does not follow vpmu's protocol"
for a in 'x' '[]' '"text"' '{}' '{"ok":1}' '{"ok":false}' '{"ok":false,"error":7}' '{"ok":true,"ok":true}' '{"ok":true,"\u001b[2J":1}'; do
	wrong sharing "$a" "$protocol" sharing
done
wrong sharing '{"ok":false,"error":"a\u001b[2Jb"}' 'a\?\[2Jb$' sharing
wrong sharing @ 'closed the connection' sharing
wrong sharing '{"ok":true,"consumers":1,"keys":1}' "$protocol: \"host-counters\"" sharing
wrong sharing '{"ok":true,"backends":{}}' "$protocol: \"backends\"" sharing
wrong sharing '{"ok":true,"backends":[{"backend":1,"consumers":1,"keys":1,"host-counters":1}]}' "$protocol: \"backend\"" sharing
wrong attach '{"ok":true}' "$protocol: \"session\"" stat -d 0.01
wrong attach '{"ok":true,"session":7}' "$protocol: \"session\"" attach s -e cycles
wrong detach '{"ok":true}' "$protocol: \"rows\"" detach s
wrong detach "$(read_answer none "$(row 1 pod 0 / "" 1 exact)")" "$protocol: \"kind\"" detach s
wrong detach "$(read_answer none "$(row 1 root 0 / "" -1 exact)")" "$protocol: \"count\"" detach s -x,
wrong read "$(read_answer none "$(row 1 root 999 / "" 1 exact)")" "$protocol: \"depth\"" stat -I 10 -j
wrong read "$(read_answer none "$(row 1 root 0 x "" 1 exact)")" "$protocol: \"path\"" top -b -n 1
wrong list '{"ok":true,"nodes":7}' "$protocol: \"nodes\"" list
wrong list '{"ok":true,"nodes":[{"kind":"root","path":"/","depth":77}]}' "$protocol: \"depth\"" list
wrong list '{"ok":true,"nodes":[{"kind":"root","depth":0}]}' "$protocol: \"path\"" list -j
wrong events '{"ok":true,"events":[{"event":"cycles","desc":"d","backends":[{"backend":"emulator"}]}]}' "$protocol: \"supported\"" events
wrong events '{"ok":true,"events":[{"event":"cycles"}]}' "$protocol: \"desc\"" events -j
wrong check '{"ok":true,"rows":[{"what":"x","ok":"yes","why":""}]}' "$protocol: \"ok\"" check
wrong conservation '{"ok":true,"rows":[{"pcpu":0,"event":"cycles","hardware":"1"}]}' "$protocol: \"charged\"" conservation
wrong conservation '{"ok":true,"rows":[{"pcpu":"x","event":"cycles","hardware":"1","charged":"1"}]}' "$protocol: \"pcpu\"" conservation -j
wrong sessions '{"ok":true,"sessions":[{"session":"s","scope":"none","target":"/","keep":true,"nr-rows":2}]}' "$protocol: \"events\"" sessions
wrong profiles '{"ok":true,"profiles":[{"profile":"p","period":"1"}]}' "$protocol: \"event\"" sessions
wrong hello '{"ok":true,"pid":"1"}' "$protocol: \"pid\"" profile -d 0.01
wrong profile-start '{"ok":true}' "$protocol: \"profile\"" profile -d 0.01
wrong profile-stop '{"ok":true}' "$protocol: \"event\"" profile -d 0.01 -j
wrong profile-stop "{$total,\"ok\":true,\"rows\":[]}" "$protocol: \"chains\"" profile -d 0.01 -g
wrong profile-stop "{$total,\"ok\":true,\"rows\":[{\"ip\":\"10\",\"samples\":\"1\"}]}" "$protocol: \"ip\"" profile -d 0.01
wrong list '{"ok":true,"nodes":[{"kind":"root","path":"/","depth":0,"\u001b[2J":1}]}' "$protocol" list
wrong lbr-read '{"ok":true,"rows":[{"vcpu":0,"source":"capture","mode":"calls","total":"1","entries":[]}]}' "$protocol: \"vm\"" lbr -d 0.01 -j
wrong lbr-read '{"ok":true}' "$protocol: \"rows\"" lbr -d 0.01
wrong lbr-read '{"ok":true,"rows":[{"vm":"a","vcpu":0,"source":"capture","mode":"calls","total":"1","entries":[{"from":"0x1","type":"x"}]}]}' \
	"$protocol: \"to\"" lbr -d 0.01 -j

kill_server
# ---- code of the host: names of processes, of their functions and of the kernel's ----
spin=$VPMU_BIN/../tests/vpmu-spin
"$spin" &
spinning=$!
on_exit='kill $spinning'
sleep 0.01 &
ended=$!
wait "$ended"
at=0x$(nm "$spin" | sed -n 's/^0*\([0-9a-f]*\) t spin_here$/\1/p')
in_file() { printf '0x%x' $((at + $1)); }
wait_for "$spinning" grep -q vpmu-spin "/proc/$spinning/maps"
kernel=$(awk '$3 == "schedule" && $1 !~ /^0*$/ { print "0x" $1; exit }' /proc/kallsyms)
nameless=0
if [ -n "$kernel" ]; then schedule=schedule; else schedule=0xffffffff81000001 kernel=$schedule nameless=1; fi
total='"backend":"bpf","profile":"p","event":"cpu-clock","target":"/","period":"100","samples":"9","lost":"0","late-max":"0","count":"900","enabled-ns":"1","running-ns":"1","quality":"exact","supported":true,"other-rows":"0","nr-rows":4'
vm="{\"kind\":\"vm\",\"path\":\"/acme\",\"depth\":2,\"vm\":\"q-1\",\"vcpus\":1,\"backend\":\"bpf\",\"pid\":$spinning}"
answers <<END
hello {"pid":$$,"ok":true}
list {"nodes":[$vm],"ok":true}
profile-start {"profile":"p","ok":true}
profile-stop {$total,"rows":[{"tenant":"/acme","side":"user","pid":$spinning,"ip":"$at","cpl":3,"samples":"4"},{"side":"user","pid":$ended,"ip":"0x7f0000000010","cpl":3,"samples":"2"},{"vm":"q-1","side":"qemu","pid":$spinning,"ip":"$(in_file 1)","cpl":3,"samples":"1"},{"side":"host","ip":"$kernel","cpl":0,"samples":"1"},{"tenant":"/acme","side":"user","pid":$spinning,"ip":"0x10","cpl":3,"samples":"1"}],"chains":[{"tenant":"/acme","side":"host","pid":$spinning,"cpl":0,"chain":["$kernel","$(in_file 4)"],"samples":"5"},{"vm":"q-1","vcpu":0,"side":"qemu","pid":$spinning,"cpl":3,"chain":["$(in_file 1)"],"samples":"1"},{"side":"user","pid":$ended,"cpl":3,"chain":["0x7f0000000010","0x7f0000000020"],"samples":"3"}],"other-chains":"0","unchained":"0","ok":true}
lbr-attach {"capture":"c","ok":true}
lbr-read {"rows":[{"vm":"q-1","vcpu":0,"backend":"bpf","entries":[{"from":"$(in_file 2)","to":"$kernel","type":"other"},{"from":"$kernel","to":"$at","type":"ret"}],"source":"capture","mode":"branches","filters":["user"],"depth":32,"total":"2"}],"ok":true}
END
"$vpmu" profile -d 0.01 >"$dir/out" 2>"$dir/notes"
check "names: the histogram" "$(sed '1d; s/ *$//' "$dir/out")" \
"OVERHEAD SAMPLES VM    COMMAND   OBJECT    FUNCTION
  44.44%       4 /acme vpmu-spin vpmu-spin [user] spin_here
  22.22%       2 /host $(printf '%-9s' ":$ended") [unknown] [user] [unknown]
  11.11%       1 /acme vpmu-spin [unknown] [user] [unknown]
  11.11%       1 /host                     [host] $schedule
  11.11%       1 q-1             vpmu-spin [qemu] spin_here"
hidden="^vpmu: no names of the host kernel's functions: /proc/kallsyms: "
check "names: a process that has ended" "$(grep -v "$hidden" "$dir/notes")" \
	"vpmu: 1 of 2 processes have ended; their user code is [unknown]"
check "names: of the kernel, for this user" "$(grep -c "$hidden" "$dir/notes")" $nameless
check "names: folded" "$("$vpmu" profile -d 0.01 --folded 2>/dev/null)" \
"/acme;[host];vpmu-spin;spin_here;$schedule 5
/host;[user];:$ended;[unknown];[unknown] 3
q-1;vcpu0;[qemu];spin_here 1"
check "names: perf-script" "$("$vpmu" profile -d 0.01 --format=perf-script 2>/dev/null | sed -n '1,/^$/p' | sed 's,(.*/vpmu-spin),(vpmu-spin),')" \
"/acme:vpmu-spin $spinning 100 cpu-clock:
	$(printf '%16s' "${kernel#0x}") $schedule$([ $schedule = schedule ] && echo +0x0) ([kernel.kallsyms])
	$(printf '%16x' "$(in_file 4)") spin_here+0x4 (vpmu-spin)"
check "names: JSON" "$("$vpmu" profile -d 0.01 -j 2>/dev/null | sed -n '1s/.*"function":"\([^"]*\)","comm":"\([^"]*\)","object":"[^"]*\/\([^"]*\)".*/\1 \2 \3/p')" \
	'spin_here vpmu-spin vpmu-spin'
"$vpmu" profile -d 0.01 --format=pprof -o "$dir/pprof" 2>/dev/null
check "names: pprof" "$(zcat <"$dir/pprof" | grep -ao 'spin_here\|comm\|/vpmu-spin' | sort -u | tr '\n' ' ')" '/vpmu-spin comm spin_here '
check "names: lbr" "$("$vpmu" lbr --mode branches -d 0.01 2>/dev/null | sed 1d | tr -s ' ')" \
" other spin_here+0x2 -> $schedule$([ $schedule = schedule ] && echo +0x0)
 ret $schedule$([ $schedule = schedule ] && echo +0x0) -> spin_here+0x0"
check "names: brstack has addresses" "$("$vpmu" lbr --format=brstack -d 0.01 | tail -n 1)" \
"$(printf '%16s' "${kernel#0x}") $(in_file 2)/$kernel/-/-/-/0 $kernel/$at/-/-/-/0"
kill "$spinning"
wait "$spinning" 2>/dev/null
on_exit=
finish
