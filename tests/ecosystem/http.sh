#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# vpmu-exporter: forms, promtool's verdict, passwords, TLS, a Unix socket, requests that are too large
# or broken, slow clients, many at a time, and the process's rights: it is an ordinary reader of vpmud. The
# textfile of the command, and restarts of both that go on with the counts.
. "$(dirname "$0")/../integration/vpmud_lib.inc"
. "$(dirname "$0")/prom_lib.inc"
need promtool curl openssl jq gzip
need_cgroups
need_run
mount_bpf || echo "# SKIP a restart: no BPF file system can be mounted"
mkdir "$ground/a"

[ "$(id -u)" = 0 ] || { echo "# SKIP not root: nobody cannot be become"; exit 77; }

begin_conf
printf 'reader_group = %s\n[tenant /t/*]\ncgroup = %s/*\n' "$(id -gn nobody)" "$top" >>"$conf"
# Through a pipe: the limit of the size of files, which "a full disk" sets, would cut the log off.
begin() {
	rm -f "$dir/log.pipe"
	mkfifo "$dir/log.pipe"
	cat "$dir/log.pipe" >"$dir/server.log" &
	"$vpmud" -c "$conf" >"$dir/log.pipe" 2>&1 &
	server=$!
	wait_for "$server" "$vpmu" sessions && return 0
	if grep -Eq 'does not permit|no BTF' "$dir/server.log"; then
		echo "# SKIP counting: $(tail -1 "$dir/server.log")"
		exit 77
	fi
	check "vpmud starts" "$(cat "$dir/server.log")" "it answers"
	finish
}
end() {
	kill_server
}
said() { [ "$(grep -c "$1" "$dir/server.log")" = 1 ]; }
code() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
sample() { # SERIES FILE
	awk -v s="$1" 'index($0, s " ") == 1 { print $NF }' "$2"
}

begin
events='events = page-faults,context-switches,task-clock'
exporter "$VPMU_SOCKET" --user nobody -- 'listen = :PORT' "$events"
at=http://127.0.0.1:$port

# ---- forms ----
curl -s "$at/metrics" -D "$dir/head" >"$dir/text"
check_match "the type of the text" "$(cat "$dir/head")" 'Content-Type: text/plain; version=0.0.4; charset=utf-8'
promtool check metrics <"$dir/text" >"$dir/out" 2>&1 || check "promtool check metrics" "$(cat "$dir/out")" "no fault"
check "promtool has nothing to say" "$(cat "$dir/out")" ""
curl -s -H 'Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5' "$at/metrics" -D "$dir/head" >"$dir/open"
check_match "the type of OpenMetrics" "$(cat "$dir/head")" 'Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8'
check "its last line" "$(tail -1 "$dir/open")" "# EOF"
check "it ends there" "$(grep -c '^# EOF' "$dir/open")" 1
check_match "when a tenant's counts began" "$(cat "$dir/open")" 'vpmu_tenant_events_created\{tenant="/t/a",backend="bpf",event="page-faults"\} [0-9]+\.[0-9]+'
check_match "units" "$(cat "$dir/open")" '# UNIT vpmu_tenant_run_seconds seconds'
curl -s -H 'Accept-Encoding: gzip' "$at/metrics" -D "$dir/head" >"$dir/packed"
check_match "gzip is offered" "$(cat "$dir/head")" 'Content-Encoding: gzip'
check "gzip" "$(gzip -dc <"$dir/packed" | grep -c '^vpmu_build_info')" 1
check "HEAD" "$(curl -sI "$at/metrics" | head -1 | tr -d '\r')" "HTTP/1.1 200 OK"
check "codes" "$(code "$at/") $(code "$at/x") $(code -X DELETE "$at/metrics") $(code -d body "$at/metrics")" "200 404 405 413"

# ---- counts ----
move a sh -c 'i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i + 1)); done'
sleep 1.1 # texts are shared by all scrapes of one second
curl -s "$at/metrics" >"$dir/text"
faults='vpmu_tenant_events_total{tenant="/t/a",backend="bpf",event="page-faults"}'
at_least "page faults of the tenant" "$(sample "$faults" "$dir/text")" 1000
check "nothing else runs there" "$(sample 'vpmu_tenant_events_total{tenant="/t",backend="bpf",event="page-faults"}' "$dir/text")" \
	"$(sample "$faults" "$dir/text")"
"$vpmu" metrics --prometheus --config "$exporter_conf" >"$dir/by_command"
check "the command shows the same" "$(sample "$faults" "$dir/by_command")" "$(sample "$faults" "$dir/text")"
"$vpmu" metrics --textfile "$dir/vpmu.prom" --config "$exporter_conf"
check "the textfile" "$(sample "$faults" "$dir/vpmu.prom")" "$(sample "$faults" "$dir/text")"
check "no other files beside it" "$(ls "$dir" | grep -c 'vpmu.prom.')" 0
promtool check metrics <"$dir/vpmu.prom" >"$dir/out" 2>&1 || check "promtool of the textfile" "$(cat "$dir/out")" "no fault"

# ---- node_exporter's textfile collector reads it ----
if command -v prometheus-node-exporter >/dev/null; then
	mkdir "$dir/node"
	cp "$dir/vpmu.prom" "$dir/node"
	exporter_port=$port
	while :; do
		free_port
		prometheus-node-exporter --collector.disable-defaults --collector.textfile --collector.textfile.directory="$dir/node" \
			--web.listen-address="127.0.0.1:$port" 2>"$dir/node.log" &
		node=$!
		jobs="$jobs $node"
		wait_for "$node" curl -sf -o "$dir/scraped" "http://127.0.0.1:$port/metrics" && break
		grep -q 'address already in use' "$dir/node.log" || check "node_exporter" "$(cat "$dir/node.log")" "it answers"
		[ "$failures" = 0 ] || finish
	done
	port=$exporter_port
	check "node_exporter finds no fault in the textfile" "$(sample node_textfile_scrape_error "$dir/scraped")" 0
	series() { sed -n 's/^\(vpmu_[^{ ]*\({.*}\)*\) [^ ]*$/\1/p' "$1" | sed 's/[{}]/,/g' | tr , '\n' | sort | uniq -c; }
	check "it shows all names and labels" "$(series "$dir/scraped")" "$(series "$dir/node/vpmu.prom")"
	check "page faults of the tenant by node_exporter" \
		"$(awk '/^vpmu_tenant_events_total/ && /event="page-faults"/ && /tenant="\/t\/a"/ { printf "%d", $NF }' "$dir/scraped")" \
		"$(sample "$faults" "$dir/node/vpmu.prom")"
	kill "$node"
else
	echo "# SKIP node_exporter: no prometheus-node-exporter (tools/deps ecosystem)"
fi

# ---- the process's rights ----
status=$(cat "/proc/$exporter/status")
check_match "its user" "$status" "Uid:[[:space:]]+$(id -u nobody)[[:space:]]+$(id -u nobody)[[:space:]]+$(id -u nobody)"
check_match "vpmud takes it for a reader" "$("$vpmu" sessions -j)" "\"uid\":$(id -u nobody)"
check_match "it has no capabilities" "$status" 'CapEff:[[:space:]]+0000000000000000'
check_match "nor may it have" "$status" 'CapPrm:[[:space:]]+0000000000000000'
check_match "system calls are filtered" "$status" 'Seccomp:[[:space:]]+2'
# ---- broken, oversize, slow, many ----
big=$(head -c 20000 /dev/zero | tr '\0' x)
c=$(code -H "X-Long: $big" "$at/metrics")
case $c in 431 | 413 | 400 | 000) ;; *) check "a header of 20,000 bytes" "$c" "431, 413 or the end" ;; esac
c=$(code "$at/$big")
case $c in 414 | 431 | 400 | 000) ;; *) check "a path of 20,000 bytes" "$c" "414 or the end" ;; esac
printf 'GARBAGE\r\n\r\n\0\0\0' | timeout 60 curl -s --http0.9 "telnet://127.0.0.1:$port" >/dev/null 2>&1
resident() { awk '$1 == "VmHWM:" { print $2 }' "/proc/$exporter/status"; }
# Clients that send a byte of their request now and then; scrapes go on.
"${VPMU_FLEET:-$VPMU_BIN/../tests/vpmu-fleet}" slow "$port" 40 >"$dir/slow" &
slow=$!
jobs="$jobs $slow"
i=0
rm -f "$dir"/many.*
pids=
while [ $i -lt 100 ]; do
	curl -s -o "$dir/many.$i" --retry 3 -w '%{http_code}\n' "$at/metrics" >"$dir/code.$i" &
	pids="$pids $!"
	i=$((i + 1))
done
wait $pids
check "100 scrapers beside 40 slow clients" "$(cat "$dir"/code.* | sort | uniq -c | tr -s ' ')" " 100 200"
check "all have whole texts" "$(grep -L '^vpmu_http_connections ' "$dir"/many.* | wc -l)" 0
# Of 100 texts there are few that differ: one a second.
different=$(for f in "$dir"/many.*; do sample vpmu_scrape_duration_seconds "$f"; done | sort -u | wc -l)
[ "$different" -lt 50 ] || check "texts that were written for 100 scrapers" "$different" "less than 50"
echo "# 100 scrapers were given $different texts; vpmu-exporter has had $(resident) KiB at most"
[ "$(resident)" -lt 200000 ] || check "memory of vpmu-exporter" "$(resident) KiB" "below 200000"
# Each of them is cut off in the end.
wait "$slow"
check "slow clients that were cut off" "$(cat "$dir/slow")" 40
check "vpmud goes on" "$("$vpmu" sessions | grep -c 'vpmu-exporter')" 2

# ---- it is killed: the next one goes on with the counts ----
kill -KILL "$exporter"
wait "$exporter" 2>/dev/null
curl -s "$at/metrics" >/dev/null && check "a killed exporter" answers "no answer"
exporter "$VPMU_SOCKET" --user nobody -- 'listen = :PORT' "$events"
at=http://127.0.0.1:$port
curl -s "$at/metrics" >"$dir/text"
at_least "the counts are there" "$(sample "$faults" "$dir/text")" 1000
# Other events: other sessions, which count from now on.
kill "$exporter"
wait "$exporter"
check "its exit status" $? 0
exporter "$VPMU_SOCKET" --user nobody -- 'listen = :PORT' 'events = page-faults'
curl -s "http://127.0.0.1:$port/metrics" >"$dir/text"
[ "$(sample "$faults" "$dir/text")" -lt 1000 ] || check "counts of a session of other events" "$(sample "$faults" "$dir/text")" "few"
check "sessions" "$("$vpmu" sessions | grep -c 'vpmu-exporter.* page-faults$')" 2
kill "$exporter"
wait "$exporter"
exporter "$VPMU_SOCKET" --user nobody -- 'listen = :PORT' "$events"
at=http://127.0.0.1:$port

# ---- a full disk: the state file is the old one, it is reported once, and counting and serving go on ----
if command -v prlimit >/dev/null; then
	prlimit --pid "$server" --fsize=1000:unlimited
	state=$VPMU_SOCKET.state
	[ "$pin_dir" = none ] || cp "$state" "$dir/state"
	"$vpmu" attach full -e page-faults,task-clock,context-switches --for-each tenant || check "a session on a full disk" refused opened
	[ "$pin_dir" = none ] || wait_for "$server" said "state file $state: cannot be written: File too large" ||
		check "the state file" "$(cat "$dir/server.log")" "said once that it cannot be written"
	[ "$pin_dir" = none ] || cmp "$state" "$dir/state" || check "the old state file" changed kept
	check "no halves" "$(ls "$run" | grep '\.new')" ""
	sleep 1.1
	check "scrapes" "$(code "$at/metrics")" 200
	move a /bin/true
	at_least "counting goes on" "$("$vpmu" stat --session full -x, | awk -F, '$3 == "page-faults" && $4 == "/t/a" { print $1 }')" 1
	prlimit --pid "$server" --fsize=unlimited
	if [ "$pin_dir" != none ]; then
		saved() { jq -r '.sessions[].session // .sessions[].name' "$state" | grep -qx full; }
		wait_for "$server" saved
		wait_for "$server" said 'the state file is written again' ||
			check "the log" "$(cat "$dir/server.log")" "the state file is written again, once"
	fi
	"$vpmu" detach full >/dev/null
else
	echo "# SKIP a full disk: no prlimit"
fi

# ---- a restart of vpmud ----
sleep 1.1
curl -s -H 'Accept: application/openmetrics-text' "$at/metrics" >"$dir/before"
end
sleep 1.1
check "without vpmud" "$(code "$at/metrics") $(code "$at/metrics")" "503 503"
check "the log says so, once" "$(grep -c "vpmu-exporter: $VPMU_SOCKET: " "$exporter_log")" 1
move a /bin/true
begin
back() { curl -sf -H 'Accept: application/openmetrics-text' "$at/metrics" >"$dir/after" && [ -n "$(sample "$faults" "$dir/after")" ]; }
wait_for "$server" back
created=$(printf '%s' "$faults" | sed 's/_total/_created/')
if [ "$pin_dir" != none ]; then
	at_least "a restart goes on, with what ran meanwhile" "$(sample "$faults" "$dir/after")" \
		"$(($(sample "$faults" "$dir/before") + 1))"
	check "and says that it began before" "$(sample "$created" "$dir/after")" "$(sample "$created" "$dir/before")"
else
	[ "$(sample "$created" "$dir/after")" != "$(sample "$created" "$dir/before")" ] || check "counts that begin anew" "as before" "another _created"
fi
kill "$exporter"
wait "$exporter"

# ---- passwords, TLS, a Unix socket ----
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key.pem" -out "$dir/cert.pem" -days 2 -subj /CN=localhost \
	-addext subjectAltName=IP:127.0.0.1 >/dev/null 2>&1 || check "openssl req" failed done
printf 'prom:%s\n' "$(openssl passwd -6 secret)" >"$dir/users"
chmod 600 "$dir/users"
up='curl -sk -o /dev/null https://127.0.0.1:PORT/'
exporter "$VPMU_SOCKET" --user nobody -- 'listen = 127.0.0.1:PORT' "$events" "users = $dir/users" "tls_cert = $dir/cert.pem" "tls_key = $dir/key.pem"
at=https://127.0.0.1:$port
tls="--cacert $dir/cert.pem"
check "without a password" "$(code $tls "$at/metrics")" 401
check "a wrong one" "$(code $tls -u prom:Secret "$at/metrics")" 401
check "another user" "$(code $tls -u x:secret "$at/metrics")" 401
check "the right one" "$(code $tls -u prom:secret "$at/metrics")" 200
check "plain HTTP to TLS" "$(code "http://127.0.0.1:$port/metrics")" 000
check "TLS 1.1" "$(code $tls --tls-max 1.1 -u prom:secret "$at/metrics")" 000
# Silent connections, without even TLS's hello, do not keep scrapers out.
"${VPMU_FLEET:-$VPMU_BIN/../tests/vpmu-fleet}" idle "$port" 300 >"$dir/idle" &
idle=$!
jobs="$jobs $idle"
cut() { curl -s $tls -u prom:secret "$at/metrics" >"$dir/text" && [ "$(sample vpmu_http_connections_cut_total "$dir/text")" -ge 44 ]; }
wait_for "$server" cut
i=0
while [ $i -lt 10 ]; do
	code $tls -u prom:secret "$at/metrics"
	echo
	i=$((i + 1))
done >"$dir/codes"
check "10 scrapers beside 300 idle connections, by TLS" "$(sort "$dir/codes" | uniq -c | tr -s ' ')" " 10 200"
kill "$idle"
wait "$idle"
check "and when these are gone" "$(code $tls -u prom:secret "$at/metrics")" 200
check "no password is on a command line" "$(tr '\0' ' ' <"/proc/$exporter/cmdline" | grep -c secret)" 0
kill "$exporter"
wait "$exporter"
chmod 666 "$dir/users"
timeout 60 "$VPMU_BIN/vpmu-exporter" -c "$exporter_conf" >"$dir/out" 2>&1 && check "users that anybody may write" accepted refused
check_match "users that anybody may write" "$(cat "$dir/out")" "^vpmu-exporter: $dir/users: expected a file that only"
chmod 600 "$dir/users"
echo no >"$dir/cert.pem"
timeout 60 "$VPMU_BIN/vpmu-exporter" -c "$exporter_conf" >"$dir/out" 2>&1 && check "a certificate that is none" accepted refused
check_match "a certificate that is none" "$(cat "$dir/out")" '^vpmu-exporter: TLS certificate or key'
up="test -S $run/metrics"
exporter "$VPMU_SOCKET" -- "listen = unix:$run/metrics" "$events"
check "over a Unix socket" "$(curl -s --unix-socket "$run/metrics" http://x/metrics | grep -c '^vpmu_build_info')" 1
check "its mode" "$(stat -c %a "$run/metrics")" 660
kill "$exporter"
wait "$exporter"
check "it is removed" "$(ls "$run/metrics" 2>/dev/null)" ""
end
finish
