#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu top: batch output (text, -x, -j), and the screen in terminals of 40, 80 and 200 columns (tmux) with
# its keys: every column can be reached at every width.
. "$(dirname "$0")/cli_lib.inc"

long=web-2-with-a-name-of-forty-characters-12
start_server --vm "$(vm web-1 tenant=/acme/web 'spin 1000000')" \
	--vm "$(vm $long tenant=/acme/web,vcpus=2 'spin 1000000')" \
	--vm "$(vm bob-1 tenant=/bob 'spin 1000000')" \
	--vm "$(vm held tenant=/bob 'spin 1000000')" \
	--vm "$(vm ended tenant=/bob 'run loop 10')"
wait_state bob-1 running
wait_state ended done
"$vpmu" pause held

again 'grep -Eq "^    web +[0-9]/2 .*[0-9.]+[kMG]" "$dir/out"' "$vpmu" top -b -n 2 -d 0.3
out=$(cat "$dir/out")
check "batch: two updates" "$(printf '%s\n' "$out" | grep -c '^vpmu top')" 2
check_match "batch: headings" "$out" '^TENANT +VMS +CPU% +IPC +GUEST-SHARE% +instructions +cycles$'
check_match "batch: cycles are marked modelled" "$out" '^/ .* [0-9.]+[kMG]~$'
check_match "batch: how many VMs run, of how many" "$out" '^  bob +1/3 '
check_match "batch: / ran all of the time" "$out" '^/ +3/5 +100\.0 '
again 'grep -Eq "^web-1 +/acme/web +running .*[0-9.]+[kMG]" "$dir/out"' \
	"$vpmu" top -b -n 1 -d 0.3 --for-each vm -t /acme -e instructions
check "batch: only the target" "$(grep -c bob-1 "$dir/out")" 0
check_match "batch: whole names" "$(cat "$dir/out")" "^$long +/acme/web +running "
"$vpmu" top -b -n 1 -d 0.01 --for-each vm -f bob >"$dir/out"
check "batch: filter" "$(sed -n '2,$s/^\([a-zN][^ ]*\) .*/\1/p' "$dir/out" | sort | tr '\n' ' ')" 'NAME bob-1 ended held '
check_match "batch: a VM that is paused" "$(cat "$dir/out")" '^held +/bob +paused +0\.0 +- +- +n\.c\.'
check_match "batch: a VM that has ended" "$(cat "$dir/out")" '^ended +/bob +done +0\.0 '
many=instructions,cycles,branches,branches-taken,loads,stores,ref-cycles
check_match "batch: all columns" "$("$vpmu" top -b -n 1 -d 0.01 -e $many)" \
	'^TENANT +VMS +CPU% +IPC +instructions +cycles +branches +branches-taken +loads +stores +ref-cycles$'

# Shares of those at one level add up to the whole. -x and -j have the same fields.
again 'grep -q "^.*/acme,,.*2/2" "$dir/out" && ! grep -q "/acme,,.*,0.00,[0-9.]*$" "$dir/out"' \
	"$vpmu" top -b -n 1 -d 0.5 -x, -e instructions
shares=$(awk -F, '$5 ~ /^\/(host|acme|bob)$/ { s += $11 } END { print (s > 95 && s < 105) }' "$dir/out")
check "-x: shares" "$shares $(cut -d, -f5,11 "$dir/out" | grep -c '^/,100.00$')" "1 1"
check_match "-x: a line" "$(cat "$dir/out")" '^[0-9.]+,[0-9]+\.[0-9]+,/s,instructions,/acme/web,,,exact,emulator,2/2,[0-9.]+,100\.00$'
again 'grep -q "\"vm\":\"bob-1\".*\"rate\":\"[0-9]" "$dir/out"' "$vpmu" top -b -n 1 -d 0.5 -j --for-each vcpu -e instructions,cycles
check "-j: one object per value" "$(wc -l <"$dir/out")" 12
check_match "-j: a VM that runs" "$(grep '"vm":"bob-1"' "$dir/out")" \
	'"vcpu":0,"backend":"emulator","event":"cycles","rate":"[0-9]+\.[0-9]{2}","unit":"/s","quality":"modelled","state":"running","cpu-percent":[0-9.]+,"pcnt-running":100\.0'
check_match "-j: a VM that does not" "$(grep '"vm":"held"' "$dir/out")" '"rate":"<not counted>".*"state":"paused","cpu-percent":0\.0'
# Metrics: those of -M and no other column, unless -e asks for events too; programs get the same.
again 'grep -Eq "^    web +[0-9]/2 .* 100\.00 +[0-9.]+~ +n\.s\.$" "$dir/out"' \
	"$vpmu" top -b -n 1 -d 0.3 -M guest-share,ipc:u,cache-mpki
check_match "-M: headings" "$(cat "$dir/out")" '^TENANT +VMS +CPU% +GUEST-SHARE% +IPC:u +CACHE-MPKI$'
again 'grep -Eq "^web-1 .* [0-9.]+ +[0-9.]+[kMG]$" "$dir/out"' "$vpmu" top -b -n 1 -d 0.3 -M taken-share -e instructions --for-each vm
check_match "-M -e: headings" "$(cat "$dir/out")" '^NAME +TENANT +STATE +CPU% +TAKEN-SHARE% +instructions$'
again 'grep -q ",taken-share,/acme,,,exact," "$dir/out"' "$vpmu" top -b -n 1 -d 0.3 -M taken-share -e loads -x,
check "-x -M: events and metrics" "$(cut -d, -f4 "$dir/out" | sort | uniq -c | tr -s ' \n' ' ')" ' 5 loads 5 taken-share '
check_match "-x -M: a line" "$(cat "$dir/out")" '^[0-9.]+,[0-9.]+,%,taken-share,/acme/web,,,exact,emulator,2/2,[0-9.]+,100\.00$'
again 'grep -q "\"tenant\":\"/acme\".*\"metric\":\"ipc\",\"metric-value\":\"[0-9.]*\",\"metric-unit\":\"insn per cycle\",\"quality\":\"modelled\"" "$dir/out"' \
	"$vpmu" top -b -n 1 -d 0.3 -M ipc,cache-mpki -j
check_match "-j -M: why there is no number" "$(cat "$dir/out")" '"metric":"cache-mpki","metric-value":"<not supported>",.*"why":"cache-misses is not supported"'
# More events than counters: RUN% is their running share.
again 'grep -Eq "^/ .* ([0-9]|[1-9][0-9])\.[0-9] +.*[0-9.]+[kMG]\*" "$dir/out" && grep -q "RUN%" "$dir/out"' \
	"$vpmu" top -b -n 1 -d 0.5 -e instructions:u,instructions:k,branches:u,branches:k,loads:u,loads:k,stores:u,stores:k
"$vpmu" top -b -M ipk 2>"$dir/err"
check "-M: a wrong name" "$? $(cut -c1-40 "$dir/err")" '2 vpmu: top: -M: "ipk" is no metric; `vpmu'
"$vpmu" top -j 2>"$dir/err"
check "-j without -b" "$? $(cat "$dir/err")" '2 vpmu: top: -j needs -b (batch mode)'
check "no session is left" "$("$vpmu" sessions -j | wc -l)" 0

if ! command -v tmux >/dev/null; then
	echo "# SKIP the screen: no tmux"
	stop_server
	finish
fi
export TMUX_TMPDIR=$dir
unset TMUX
on_exit='tmux kill-server'
tmux -f /dev/null new -d -s t -x 80 -y 24 \
	"VPMU_SOCKET=$VPMU_SOCKET $vpmu top -d 0.3 -e $many; echo left with \$?; sleep 3600"
has() { # PATTERN
	tmux capture-pane -p -t t | grep -Eq -- "$1"
}
shown() { # PATTERN: until the screen has such a line
	echo "# the screen will show: $1"
	wait_for "$server" has "$1" || exit 1
}
key() { # KEY
	tmux send-keys -t t "$1"
}
shown '^    web +2/2 .*[0-9.]+[kMG]'
shown '^q quit'
shown '^emulator: [0-9]+ consumers on [0-9]+ counters'
check "24 lines" "$(tmux capture-pane -p -t t | wc -l)" 24
key v
shown '^web-1 +running .*[0-9.]+[kMG]'
key c
shown '^web-1/0 +running '
key n
shown 'by name'
key r
shown 'reversed'
key r
key t
# Each column comes into view when it is the one to sort by, and the footer has the number of those that do not fit.
key '<'
for width in 40 80 200; do
	tmux resize-window -t t -x $width -y 24
	for column in ref-cycles VMS CPU% IPC instructions cycles branches branches-taken loads stores; do
		shown "by $(printf '%s' $column | cut -c1-14)"
		shown "^TENANT.* $column( |\$)"
		check "$width columns: no longer line" \
			"$(tmux capture-pane -p -t t | awk -v w=$width 'length > w' | wc -l)" 0
		[ $column = stores ] || key '>'
		if [ $column = IPC ]; then # the rest of the columns is on the right
			case $width in
			40) shown 'events/s  (< [0-9]+ more)?  > [67] more' ;;
			80) shown 'events/s  > [0-9] more' ;;
			200) shown 'events/s  ~ modelled' ;;
			esac
		fi
	done
	key '>'
	shown 'by ref-cycles'
done
# Names are capped and elided so that they differ; the rest of a wide screen is a bar of CPU%.
key v
tmux resize-window -t t -x 80 -y 24
shown '^web-2[^ ]*\.\.[^ ]*12 '
check "80 columns: no bar beside long names" "$(tmux capture-pane -p -t t | grep -c '|')" 0
tmux resize-window -t t -x 200 -y 24
shown "^$long +/acme/web +running +[0-9.]+ [|]+ "
key t
shown '^/ +3/5 +[0-9.]+ [|]{19,20} '
tmux resize-window -t t -x 80 -y 24
# Colours by quality and load; none with NO_COLOR.
coloured() { tmux capture-pane -e -p -t "$1" | grep -q "$(printf '\033')\[3[1-6]m"; }
wait_for "$server" coloured t || exit 1
modelled() { tmux capture-pane -e -p -t t | grep -Eq "$(printf '\033')\[36m *[0-9.]+[kMG]?~"; }
wait_for "$server" modelled || exit 1
tmux -f /dev/null new -d -s plain -x 80 -y 24 "NO_COLOR=1 VPMU_SOCKET=$VPMU_SOCKET $vpmu top -d 0.3"
plain() { tmux capture-pane -p -t plain | grep -Eq '^    web +2/2 .*[0-9.]+[kMG]'; }
wait_for "$server" plain || exit 1
coloured plain && check "NO_COLOR" "$(tmux capture-pane -e -p -t plain | cat -v)" "no colours"
tmux send-keys -t plain q
gone() { ! tmux has-session -t plain 2>/dev/null; }
wait_for "$server" gone || exit 1
# Without keys there is no way to wait: refused, instead of a screen that is drawn all the time.
tmux -f /dev/null new -d -s deaf -x 80 -y 24 "VPMU_SOCKET=$VPMU_SOCKET $vpmu top </dev/null; echo left with \$?; sleep 3600"
deaf() { tmux capture-pane -p -t deaf | tr '\n' ' ' | grep -q 'standard input is not a terminal; give -b for plain text left with 2'; }
wait_for "$server" deaf || exit 1
tmux kill-session -t deaf
# The filter, and the help.
key v
shown '^NAME '
key /
shown '^only names with: _'
key b
key o
key b
shown '^bob-1 '
check "filter: nothing else" "$(tmux capture-pane -p -t t | grep -c '^web-1')" 0
key Enter
shown '^vpmu top .*"bob" vm of /'
key h
shown '^h  this help +q  quit'
shown '^CPU%   share of the time of all pCPUs'
tmux resize-window -t t -x 40 -y 8
shown '^up down scroll; other keys go back'
check "help: not all fits" "$(tmux capture-pane -p -t t | grep -c '^! partial')" 0
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do key Down; done
shown '^! partial'
key x
shown '^bob-1'
key Escape
tmux resize-window -t t -x 80 -y 24
shown '^web-1 '
key q
shown 'left with 0'
check "no session is left" "$("$vpmu" sessions -j | wc -l)" 0
stop_server
finish
