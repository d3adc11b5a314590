#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/faults/each.bash SCENE...: fails each call of each scene (scenes.bash), one call per run.
# The first run of a scene is without a fault; it records which calls our objects make and what they ask the
# registry. Then the scene runs again for each recorded call, for its first and second time (FAULTS_TIMES), and for
# each way in which the call can go wrong. After each run, `judge` and `nothing_left` check the result. The script
# reports what broke, and then exits with 1. `all` plays every scene. README.md has the settings.
set -u
here=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$here/../.." && pwd)
BUILD=$(cd "${BUILD:-$ROOT/build}" && pwd)
BIN=$BUILD/tests/bin
TIMES=${FAULTS_TIMES:-2}
DEADLINE_S=${FAULTS_DEADLINE_S:-20} # what runs longer hangs
LIMIT_MS=${FAULTS_LIMIT_MS:-10000} # and nothing takes longer, however often a registry lets it wait
SCENE_S=${FAULTS_SCENE_S:-900} # a scene that is not done by then is broken
LIBRARIES=$BUILD/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export GPUSHARE_TIMEOUT_MS=${GPUSHARE_TIMEOUT_MS:-400}
unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_AUTOSTART GPUSHARE_LOG GPUSHARE_PUBLISH XDG_RUNTIME_DIR
# shellcheck source=tests/faults/scenes.bash
source "$here/scenes.bash"
# shellcheck source=tests/faults/scenes_others.bash
source "$here/scenes_others.bash"
# shellcheck source=tests/faults/scenes_tools.bash
source "$here/scenes_tools.bash"
# shellcheck source=tests/faults/scenes_daemon.bash
source "$here/scenes_daemon.bash"
# shellcheck source=tests/faults/scenes_admin.bash
source "$here/scenes_admin.bash"

# The ways in which a call can go wrong. Apart from `fail`: interrupted (e4), not ready (e11), half done (short).
ways_of() {
	case $1 in
	ask.greeting | ask.* | fds.*)
		echo s{1..23} ok garbage other noise huge closed lost mute late
		;;
	recv | send | recvmsg | sendmsg) echo fail e4 e11 short ;;
	read | write | pread | pwrite) echo fail e4 short ;;
	fwrite) echo fail short ;;
	poll | open | openat | accept4 | connect | waitpid | flock | posix_fallocate | close | fcntl) echo fail e4 ;;
	epoll_wait) echo fail ;;
	*) echo fail ;;
	esac
}

# A short list of the answers for a quick look.
[ -z "${FAULTS_QUICK:-}" ] || ways_of() {
	case $1 in
	ask.greeting) echo garbage closed mute ;;
	ask.* | fds.*) echo s3 s5 s9 ok garbage closed lost late ;;
	*) echo fail ;;
	esac
}

# Print a line for each fault: each call site of the last record, with each time and way.
faults() {
	local count site call way nth
	sites_filter <"$WORK/record" | sort | uniq -c | while read -r count site; do
		call=${site%%@*}
		# FAULTS_OMIT is for calls that never fail on Linux, or whose failure is no fault: a lock that another holds
		[[ ! $site =~ ${FAULTS_OMIT:-^$} ]] && [[ $site =~ ${FAULTS_ONLY:-.} ]] || continue
		for way in $(ways_of "$call"); do
			for ((nth = 1; nth <= count && nth <= TIMES; nth++)); do
				echo "$site#$nth=$way"
			done
		done
	done
}

# place FAULT: print the file and line of the call
place() {
	local object=${1#*@} offset file
	offset=${object#*+} object=${object%%+*}
	offset=${offset%%#*}
	file=$(find "$BUILD" -maxdepth 1 -name "$object" | head -n 1)
	addr2line -fpie "${file:-$BUILD/$object}" "$(printf '0x%x' $((0x$offset - 1)))" 2>/dev/null | head -n 1
}

# play FAULT: run the scene with the fault. It leaves the files out, err, left and hit in $WORK, and sets `code`.
play() {
	: >"$WORK/left" && : >"$WORK/hit"
	code=0
	local began=${EPOCHREALTIME/./}
	FAULT_AT=$1 FAULT_HIT=$WORK/hit FAULT_LEFT=$WORK/left FAULT_OF=$OF \
		scene >"$WORK/out" 2>"$WORK/err" </dev/null || code=$?
	took_ms=$(((${EPOCHREALTIME/./} - began) / 1000))
}

# broken FAULT WHAT: report it in one write, so that workers' reports don't mix
broken() {
	local text
	text="BROKEN: $name: $1: $2
  at: $(place "$1")
$(sed 's/^/  out: /' "$WORK/out" | head -n 30)
$(sed 's/^/  err: /' "$WORK/err" | head -n 12)"
	printf '%s\n' "$text" >>"$TOP/broken"
}

judge_one() {
	if [ $code = 124 ] || [ $code = 137 ]; then
		broken "$1" "still running after $DEADLINE_S s"
	elif [ "$took_ms" -gt "$LIMIT_MS" ]; then
		broken "$1" "took $took_ms ms"
	elif ! judge "$1" >"$WORK/why" || ! nothing_left "$1" >"$WORK/why"; then
		broken "$1" "$(<"$WORK/why")"
	fi
}

# not_more FAULT: fail if the run leaves something that the run without a fault did not leave. These are no leaks:
# - If the failed call was a release, its object stays. So does a page that can no longer be unregistered (map).
# - A free that waits for its stream (async_defer) is done in the process's next call.
# - The daemon's closer and nng release their memory in their own threads.
# - If the registry did not hear that a client ended (client_new), the process's next connection releases the client.
# - The list of buffers that a registry wants again (put) is held until the process's next call.
# - If the registry did not hear that memory was freed (deferred_put), the memory is held until the registry answers.
# - The page of changes, which tells who has left (fetch), is held as long as the connection.
# - The socket for a late answer is held until the next request (client_late).
is_unheard() {
	[[ $1 =~ ^(ask\.|fds\.|send|recv|poll|connect|socket) ]]
}
is_release() {
	[[ $1 == fstat@* ]] && [[ $(place "$1") == *is_ours\ * ]] && return 0 # another's is not closed
	[[ $1 =~ ^(close|fclose|munmap|ask\.[569]|cu[A-Za-z]*(Free|Release|Unmap|Close|Destroy|Unregister)[A-Za-z0-9_]*)@ ]]
}
not_more() {
	local kind what line more=
	local -A had=()
	is_release "$1" && return 0
	while IFS= read -r line; do had[$line]+=x; done <"$WORK/left.plain"
	while IFS= read -r line; do
		[[ $line != "fd $WORK/"* ]] || continue
		if [ -n "${had[$line]:-}" ]; then
			had[$line]=${had[$line]#x}
			continue
		fi
		read -r kind what <<<"$line"
		what="$kind $what"
		[ "$kind" = fd ] || what="$kind by $(place "@${what#* }")"
		[[ $what =~ \ (client_new|deferred_put|fetch|put)\ at\  ]] && is_unheard "$1" && continue
		[[ $1 == cuCtxPushCurrent* && $what == *" map at "*order_page.c* ]] && continue
		[[ $1 == fds.*=@(late|mute) && $what == "fd socket:" ]] && continue
		[[ $what =~ \ (async_defer|closer_[a-z]*|nn[ig]_[a-z_]*|ipc_[a-z_]*)\ at\  ]] || more+="$what; "
	done <"$WORK/left"
	[ -z "$more" ] || { echo "left: $more"; return 1; }
}

# worker NUMBER: play this worker's share of the faults, in its own directory
worker() {
	local fault number=0 hits=0 asked=0 taken=0
	WORKER=$1 WORK=$TOP/$1
	mkdir -p "$WORK" && cp "$TOP"/*plain "$WORK"
	export GPUSHARE_DIR=$WORK/r
	[ -d "$GPUSHARE_DIR" ] || mkdir -m 700 "$GPUSHARE_DIR"
	prepare || { echo "BROKEN: $name: worker $1 can't be prepared" >>"$TOP/broken"; return; }
	while read -r fault; do
		number=$((number + 1))
		[ $((number % JOBS)) = "$1" ] || continue
		[ "$SECONDS" -lt "$ends" ] || { echo . >>"$TOP/undone"; continue; }
		play "$fault"
		[ ! -s "$WORK/hit" ] || hits=$((hits + 1))
		[[ ! $fault =~ ^(ask|fds)\..*=(s[0-9]+|ok|garbage|other|noise|huge)$ ]] || { asked=$((asked + 1)) && [ ! -s "$WORK/hit" ] || taken=$((taken + 1)); }
		judge_one "$fault"
	done <"$TOP/faults"
	echo "$hits $asked $taken" >"$TOP/hits.$1"
	finish_scene
}

end_pids() {
	local pid
	for pid in "$@"; do
		kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
}

# End the registries and keepers of this worker's directory.
end_registries() {
	local kind
	for kind in '' '--keeper\x00'; do
		# shellcheck disable=SC2046
		end_pids $(grep -lsaP "gpushare-registry\x00$kind--dir\x00\Q$GPUSHARE_DIR\E\x00" /proc/[0-9]*/cmdline | cut -d / -f 3)
	done
}

broken_in() {
	[[ "$broken_scenes " == *" $name "* ]] || broken_scenes+=" $name"
}

# is_broken WHY: report that the scene itself is broken
is_broken() {
	echo "BROKEN: $name: $1"
	all_broken=$((all_broken + 1))
	broken_in
}

# End what still runs in the scene's directory, then remove the directory.
clean_up() {
	[ -n "${TOP:-}" ] || return 0
	# shellcheck disable=SC2046
	end_pids $(jobs -p) $(grep -lszF "GPUSHARE_DIR=$TOP/" /proc/[0-9]*/environ | cut -d / -f 3)
	rm -rf "$TOP"
	TOP=
}

# play_scene NAME
play_scene() {
	local began=$SECONDS ends=$((SECONDS + SCENE_S)) total hits asked taken broke one call
	name=$1
	sites_filter() {
		cat
	}
	unset MUST_CALL SERVER SERVER_PID ATTACHES AT_LEAST NAMES_VARY SAYS_WHAT_FAILS ALL_THE_SAME DIFFERS TROUBLE CANT
	LIMIT_MS=${FAULTS_LIMIT_MS:-10000}
	export LD_LIBRARY_PATH=$LIBRARIES
	TOP=$(mktemp -d "${TMPDIR:-/tmp}/faults.XXXXXX")
	: >"$TOP/broken" && : >"$TOP/undone"
	WORKER=all WORK=$TOP/all
	mkdir "$WORK" && export GPUSHARE_DIR=$WORK/r && mkdir -m 700 "$GPUSHARE_DIR"
	"scene_$name"
	if [ "${CANT:-}" ]; then
		echo "skipped: $name: $CANT"
		clean_up
		return
	fi
	prepare || { is_broken "can't be prepared"; clean_up; return; }
	unset FAULT_AT
	play '' # what is done once only, as when the registry is started, is done
	FAULT_RECORD=$WORK/record play ''
	cp "$WORK/out" "$WORK/out.plain"
	grep -sv "^fd $WORK/" "$WORK/left" >"$WORK/left.plain"
	judge_one ''
	for call in ${MUST_CALL:-}; do
		grep -q "^$call@" "$WORK/record" || is_broken "nothing calls $call()"
	done
	finish_scene
	faults >"$TOP/faults"
	[ -z "${FAULTS_SITES:-}" ] || sites_filter <"$WORK/record" | sort -u >>"$FAULTS_SITES"
	cp "$WORK"/*.plain "$TOP"
	[ ! -e "$WORK/plain" ] || cp "$WORK/plain" "$TOP/plain"
	total=$(wc -l <"$TOP/faults")
	for ((one = 0; one < JOBS; one++)); do worker $one & done
	wait
	read -r hits asked taken < <(cat "$TOP"/hits.* | awk '{ hits += $1; asked += $2; taken += $3 } END { print hits + 0, asked + 0, taken + 0 }')
	broke=$(grep -c '^BROKEN' "$TOP/broken")
	echo "$name: $total faults, $hits happened, $broke broken, $((SECONDS - began)) s"
	cat "$TOP/broken"
	all_faults=$((all_faults + total)) all_hits=$((all_hits + hits)) all_broken=$((all_broken + broke))
	[ "$broke" = 0 ] || broken_in
	[ ! -s "$TOP/undone" ] || is_broken "$(wc -l <"$TOP/undone") of its faults not looked at in $SCENE_S s"
	if [ "$hits" -lt $((total * 8 / 10)) ] || { [ -z "${FAULTS_ONLY:-}" ] && [ "$total" -lt "${AT_LEAST:-20}" ]; }; then
		is_broken "too few of them happened"
	fi
	[ $((2 * taken)) -ge "$asked" ] || is_broken "of $asked answers only $taken were taken"
	clean_up
}

JOBS=${FAULTS_JOBS:-$((3 * $(nproc)))} # most of their time they wait
all_faults=0 all_hits=0 all_broken=0 broken_scenes=
mapfile -t all < <(declare -F | sed -n 's/^declare -f scene_//p')
part=1 parts=1
if [[ $* =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]]; then
	part=${BASH_REMATCH[1]} parts=${BASH_REMATCH[2]}
	set -- all
fi
[ "$*" != all ] || set -- "${all[@]}"
trap clean_up EXIT
trap 'exit 130' INT TERM
count=0
for ((number = part; number <= $#; number += parts)); do
	play_scene "${!number}"
	count=$((count + 1))
done
echo "$count scenes: $all_faults faults, $all_hits happened, $all_broken broken${broken_scenes:+ (in$broken_scenes)}, $SECONDS s"
[ $all_broken = 0 ]
