#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu top: batch output, and the screen in an 80x24 terminal (tmux) with its keys and a resize.
. "$(dirname "$0")/cli_lib.inc"

start_server --vm "$(vm web-1 tenant=/acme/web 'spin 1000000')" \
	--vm "$(vm web-2 tenant=/acme/web 'spin 1000000')" \
	--vm "$(vm bob-1 tenant=/bob 'spin 1000000')"
wait_state bob-1 running

again 'grep -Eq "^    web +[0-9.]+[kMG]" "$dir/out"' "$vpmu" top -b -n 2 -d 0.3
out=$(cat "$dir/out")
check "batch: two updates" "$(printf '%s\n' "$out" | grep -c '^vpmu top')" 2
check_match "batch: headings" "$out" '^TENANT +instructions +cycles +branches +IPC$'
check_match "batch: cycles are marked modelled" "$out" '^/ +[0-9.]+[kMG] +[0-9.]+[kMG]~'
check "batch: at most 80 columns" "$(printf '%s\n' "$out" | awk 'length > 80' | wc -l)" 0
again 'grep -Eq "^web-1 +/acme/web +[0-9.]+[kMG]" "$dir/out"' \
	"$vpmu" top -b -n 1 -d 0.3 --for-each vm -t /acme -e instructions
check "batch: only the target" "$(grep -c bob-1 "$dir/out")" 0
check "no session is left" "$("$vpmu" sessions -j | wc -l)" 0

if ! command -v tmux >/dev/null; then
	echo "# SKIP the screen: no tmux"
	stop_server
	finish
fi
export TMUX_TMPDIR=$dir
unset TMUX
on_exit='tmux kill-server'
tmux -f /dev/null new -d -s t -x 80 -y 24 "VPMU_SOCKET=$VPMU_SOCKET $vpmu top -d 0.3; echo left with \$?; sleep 3600"
has() { # PATTERN
	tmux capture-pane -p -t t | grep -Eq -- "$1"
}
shown() { # PATTERN: until the screen has such a line
	echo "# the screen will show: $1"
	wait_for "$server" has "$1" || exit 1
}
shown '^    web +[0-9.]+[kMG]'
shown '^q quit'
shown '^soft: [0-9]+ consumers on [0-9]+ counters'
check "24 lines" "$(tmux capture-pane -p -t t | wc -l)" 24
tmux send-keys -t t v
shown '^web-1 +/acme/web +[0-9.]+[kMG]'
tmux send-keys -t t c
shown '^web-1/0 +/acme/web'
tmux send-keys -t t '>'
shown 'by cycles'
tmux send-keys -t t n
shown 'by name'
tmux send-keys -t t r
shown 'reversed'
tmux send-keys -t t t
tmux resize-window -t t -x 50 -y 12
shown '^    web +[0-9.]+[kMG].* [0-9]\.[0-9]+~$'
check "the narrow screen keeps IPC" "$(tmux capture-pane -p -t t | grep -c 'IPC$')" 1
tmux send-keys -t t q
shown 'left with 0'
check "no session is left" "$("$vpmu" sessions -j | wc -l)" 0
stop_server
finish
