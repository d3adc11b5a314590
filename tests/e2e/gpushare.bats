#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare run, ls, stat, rm.
load helpers

# The sanitizer runtime must be loaded before the preload, but `gpushare run` puts the preload first.
gpushare_run() {
	if [ -n "${GPUSHARE_TEST_ASAN_PRELOAD:-}" ]; then
		env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" \
			LD_PRELOAD="$GPUSHARE_TEST_ASAN_PRELOAD" gpushare run "$@" </dev/null
	else
		gpushare run "$@" </dev/null
	fi
}

@test "run --name names, run --attach attaches; output and exit code are the program's" {
	start app bash -c "$(declare -f gpushare_run); gpushare_run --name weights -- $BIN/rt_app_static init \
		alloc=a,1Mi fill=a,7 touch=$WORK/up await=$WORK/end"
	await_file "$WORK/up"
	STARTED+=("$(pgrep -P "$PID" || true)")
	equal "$(names)" "weights 1048576"
	run -6 --separate-stderr gpushare_run --attach weights:must -- "$BIN/rt_app_static" init alloc=a,1Mi \
		byte=a,5 exit=6
	equal "$output" "init: 0
alloc a: 0
byte a: 42"
	down
}

@test "run becomes the program: same pid, same words, its arguments as they are" {
	run -0 --separate-stderr gpushare_run -- sh -c 'printf "%s|" "$@"' sh 'a b' '' '*' --name -- x
	equal "$output" "a b||*|--name|--|x|"
	equal "$stderr" ""
}

@test "run sets the variables, keeps LD_PRELOAD, sets no more" {
	# shellcheck disable=SC2016 # the child expands
	run -0 gpushare_run --name w --attach x --dir "$WORK/r2" -- \
		sh -c 'echo "$GPUSHARE_NAME $GPUSHARE_ATTACH $GPUSHARE_DIR"'
	equal "$output" "w x $WORK/r2"
	# shellcheck disable=SC2016
	run -0 gpushare_run -- sh -c 'echo "${GPUSHARE_NAME-none} ${GPUSHARE_ATTACH-none} $GPUSHARE_DIR"'
	equal "$output" "none none $GPUSHARE_DIR"
	# shellcheck disable=SC2016
	run -0 env ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0" \
		LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD:}$BIN/lib_plugin.so" \
		gpushare run -- sh -c 'echo "$LD_PRELOAD"'
	equal "$output" "$(realpath "$SHIM"):${GPUSHARE_TEST_ASAN_PRELOAD:+$GPUSHARE_TEST_ASAN_PRELOAD:}$BIN/lib_plugin.so"
}

@test "run without a program, or with an option that there is not: exit code 2" {
	misused '' gpushare_run "" "--name w" "--name w --" "--nonsense -- true" "--name"
}

@test "run with rules that don't parse: exit code 2, the part marked, the program not started" {
	run -2 --separate-stderr gpushare_run --name w:size=ten -- touch "$WORK/started"
	has "$stderr" ">>>size=ten<<<"
	equal "$(lines "$stderr")" 1
	run -2 --separate-stderr gpushare_run --attach 'a b' -- touch "$WORK/started"
	has "$stderr" ">>>a b<<<"
	[ ! -e "$WORK/started" ]
}

@test "run a program that is not there: 127; one that can't be run: 126" {
	run -127 --separate-stderr gpushare_run -- no-such-program-anywhere
	has "$stderr" no-such-program-anywhere
	run -126 --separate-stderr gpushare_run -- "$WORK"
	has "$stderr" "$WORK"
}

@test "run without its preload library: said, and the program not started" {
	mkdir "$WORK/alone"
	cp "$BUILD/gpushare" "$WORK/alone/"
	run -1 --separate-stderr "$WORK/alone/gpushare" run -- touch "$WORK/started"
	has "$stderr" libgpushare_shim.so
	GPUSHARE_SHIM=/nonexistent run -1 --separate-stderr "$WORK/alone/gpushare" run -- touch "$WORK/started"
	has "$stderr" /nonexistent
	[ ! -e "$WORK/started" ]
	GPUSHARE_SHIM=$SHIM run -0 env ${GPUSHARE_TEST_ASAN_PRELOAD:+"ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"} \
		"$WORK/alone/gpushare" run -- true
}

two_names() {
	up_named app weights,kv/0 "$BIN/rt_app_static" init alloc=a,1Mi alloc=b,2Mi
}

@test "ls: one line a name, with size, owner and attachers" {
	two_names
	run -0 --separate-stderr gpushare ls
	equal "$stderr" ""
	equal "$(lines "$output")" 3
	[[ ${lines[0]} == NAME*SIZE*HELD*GPU*OWNER* ]]
	[[ ${lines[1]} =~ ^kv/0\ +2097152\ +2097152\ +GPU-[-0-9a-f]{36}\ +rt_app_static\[$PID\]\ +0\  ]]
	[[ ${lines[2]} =~ ^weights\ +1048576\ +[0-9]+\ +GPU-[-0-9a-f]{36}\ +rt_app_static\[$PID\]\ +0\  ]]
	run -0 gpushare ls 'kv*'
	equal "${#lines[@]}" 2
	has "${lines[1]}" kv/0
}

# on_terminal WORD...: what `gpushare ls WORD...` prints on a terminal, without its colours and returns
on_terminal() {
	NO_COLOR=1 terminal 24x150 end=0 -- gpushare ls "$@" | tr -d '\r'
}

@test "ls: rounded sizes on a terminal alone, exact ones by --bytes" {
	local gpu='GPU-[0-9a-f]{8}'
	[ "${GPUSHARE_TEST_DRIVER:-sim}" = sim ] || gpu='(GPU-[0-9a-f]{8}|[0-9]+ [^ ].*)' # NVML has a number and a name
	two_names
	run -0 on_terminal
	[[ ${lines[1]} =~ ^kv/0\ +2\ MiB\ +2\ MiB\ +$gpu\ +rt_app_static\[$PID\]\ +0\  ]]
	run -0 on_terminal --bytes
	[[ ${lines[1]} =~ ^kv/0\ +2097152\ +2097152\ +$gpu\ +rt_app ]]
	[[ $(gpushare ls -l) =~ kv/0\ +2097152\ +2097152\ +GPU-[-0-9a-f]{36}\  ]]
}

# Files as the driver of real GPUs has them. Without an argument both GPUs are of one model.
driver_lists() {
	local uuid
	uuid=$(shown weights gpu)
	mkdir -p "$WORK/nvidia/gpus/0000:17:00.0" "$WORK/nvidia/gpus/0000:3d:00.0"
	printf 'Model: \t\t %s\nIRQ:   \t\t 18\nGPU UUID: \t GPU-00000000-0000-0000-0000-000000000000\nDevice Minor: \t 1\n' \
		"${1:-NVIDIA H200}" >"$WORK/nvidia/gpus/0000:17:00.0/information"
	printf 'Model: \t\t NVIDIA H200\nIRQ:   \t\t 19\nGPU UUID: \t %s\nDevice Minor: \t 0\n' "$uuid" \
		>"$WORK/nvidia/gpus/0000:3d:00.0/information"
	export PROC_NVIDIA=$WORK/nvidia LD_PRELOAD="${GPUSHARE_TEST_ASAN_PRELOAD:-} $BIN/lib_proc_nvidia.so"
}

@test "ls on a terminal: the GPU by index and model if all are of one model, by -l its UUID" {
	needs jq
	two_names
	driver_lists
	[[ $(on_terminal weights) =~ MiB\ +1\ H200\ +rt_app_static ]]
	[[ $(on_terminal -l weights) =~ MiB\ +GPU-[-0-9a-f]{36}\ +rt_app_static ]]
	[[ $(gpushare ls weights) =~ \ GPU-[-0-9a-f]{36}\ +rt_app_static ]]
	driver_lists "NVIDIA L4"
	[[ $(on_terminal weights) =~ MiB\ +GPU-[0-9a-f]{8}\ +rt_app_static ]]
}

@test "ls -o: these columns in this order; --sort, up and down; --no-headers; -q" {
	up api "$BIN/api_app" open alloc=a,b,3Mi alloc=b,c,64Ki alloc=c,a,1Mi
	equal "$(gpushare ls -o size,NAME)" "   SIZE  NAME
1048576  a
3145728  b
  65536  c"
	equal "$(gpushare ls -o NAME,BACKING,RIGHTS --sort size)" "NAME  BACKING  RIGHTS
c     ipc      rw------- $(id -un):$(id -gn)
a     ipc      rw------- $(id -un):$(id -gn)
b     ipc      rw------- $(id -un):$(id -gn)"
	equal "$(gpushare ls -q --sort -SIZE)" "b
a
c"
	equal "$(gpushare ls -q --sort -NAME)" "c
b
a"
	equal "$(gpushare ls -q --sort GENERATION)" "b
c
a"
	equal "$(gpushare ls --no-headers -o NAME,SIZE c)" "c     65536"
	equal "$(gpushare ls -q nobody)" ""
	misused "; the columns are NODE NAME SIZE HELD GPU OWNER ATTACHMENTS AGE RIGHTS STATE TAGS BACKING GENERATION" \
		"gpushare ls" "-o fly" "-o NAME," "--sort fly" "--sort -fly"
	misused '' "gpushare ls" "--json -q" "--json -o NAME" "--json --sort SIZE" "-q -o SIZE" "--events --deferred"
}

@test "attachments: the same word and number in ls, stat, watch and JSON" {
	needs jq
	two_names
	start watch gpushare watch
	until_true grep -q watching "$WORK/watch.err"
	begin holder "$BIN/api_app" open attach=a,weights attach=b,weights touch="$WORK/held" await="$WORK/end"
	equal "$(gpushare ls -o NAME,ATTACHMENTS weights)" "NAME     ATTACHMENTS
weights            2"
	has "$(gpushare stat weights)" "attachments: 2"
	has "$(gpushare stat)" "attachments: 2"
	equal "$(gpushare ls --json weights | jq -c '.[] | [.attachments, .attachers]')" "[2,2]"
	until_true grep -q "attach .* attachments=2" "$WORK/watch.out"
}

@test "ls --json is JSON with every field" {
	needs jq
	two_names
	gpushare ls --json >"$WORK/json"
	equal "$(jq -r 'length' "$WORK/json")" 2
	equal "$(jq -r '.[] | "\(.name) \(.size) \(.owner_pid) \(.owner_command) \(.owner_uid) \(.backing) \(.attachers)"' \
		"$WORK/json")" "kv/0 2097152 $PID rt_app_static $(id -u) ipc 0
weights 1048576 $PID rt_app_static $(id -u) ipc 0"
	equal "$(jq '[.[].generation] | unique | length' "$WORK/json")" 2
	equal "$(jq -c '.[] | [.held == .base_size, .isolated == (.base_size % 2097152 == 0)]' "$WORK/json")" \
		"[true,true]
[true,true]"
	now=$(date +%s)
	made=$(jq '.[0].created_unix_ns / 1000000000 | floor' "$WORK/json")
	[ "$made" -le "$now" ]
	[ "$made" -gt $((now - 120)) ]
	equal "$(gpushare ls --json nobody | jq -c .)" "[]"
}

@test "ls with nothing to list" {
	[ -n "${EMULATOR:-}" ] || start_registry
	run -0 --separate-stderr gpushare ls
	equal "$(lines "$output")" 1
	equal "$(gpushare ls --json | tr -d ' \n')" "[]"
}

@test "stat tells of one, rm takes its name" {
	two_names
	run -0 gpushare stat weights
	has "$output" 1048576
	has "$output" "rt_app_static[$PID]"
	run -0 gpushare rm weights
	equal "$output" ""
	equal "$(names)" "kv/0 2097152"
	run -1 --separate-stderr gpushare stat weights
	has "$stderr" weights
	run -1 --separate-stderr gpushare rm weights
	has "$stderr" weights
	equal "$output" ""
}

@test "usage errors are exit code 2" {
	misused '' gpushare "" "fly" "ls a b" "ls --nonsense" "stat a b" "stat --deferred" "rm" "rm --json a"
	misused "usage: gpushare-registry" gpushare-registry --bogus extra "--idle-exit -1" "--idle-exit 1s" --ready-fd \
		"--ready-fd x" "--ready-fd 2147483648" --dir
	misused "--keeper is only for a registry that starts its keeper" gpushare-registry --keeper "--keeper --dir $WORK"
	run -1 --separate-stderr gpushare-registry --dir "/$(printf 'd%.0s' {1..100})"
	has "$stderr" "too long for a socket; choose a shorter one with --dir"
	equal "$(registry_pids)" ""
}

@test "--help and --version" {
	run -0 gpushare --help
	has "$output" "run "
	run -0 gpushare --version
	[[ $output =~ ^gpushare\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
	version=${output#* }
	for help in --help -h; do
		run -0 gpushare-registry "$help"
		has "$output" "--idle-exit SECONDS"
	done
	run -0 gpushare-registry --version
	has "$output" "$version"
}

@test "output that can't be written is exit code 1, said" {
	two_names
	for words in ls "ls --json" "stat weights" --help; do
		run -1 --separate-stderr sh -c "gpushare $words >/dev/full"
		[ -n "$stderr" ]
	done
}

@test "rm takes several names and patterns, and tells what is gone" {
	up api "$BIN/api_app" open alloc=a,llama/a,64Ki alloc=b,llama/b,64Ki alloc=c,kv,64Ki alloc=d,w0,64Ki
	run -0 --separate-stderr gpushare rm 'llama/*' kv
	equal "$output" "removed llama/a
removed llama/b
removed kv"
	equal "$(names)" "w0 65536"
	run -1 --separate-stderr gpushare rm nobody w0
	equal "$output" "removed w0"
	has "$stderr" nobody
	run -1 --separate-stderr gpushare rm 'llama/*'
	has "$stderr" "no buffer's name matches 'llama/*'"
	run -1 --separate-stderr gpushare stat 'a b'
	equal "$stderr" "gpushare: 'a b' is not a buffer name: a name is 1 to 255 bytes of A-Z a-z 0-9 . _ / -"
}

@test "a mistyped name: stat, rm, tag and gpushare-attach tell what comes close" {
	up api "$BIN/api_app" open alloc=a,weights,64Ki alloc=b,weight2,64Ki alloc=c,wight,64Ki \
		alloc=d,kv,64Ki
	for words in "gpushare stat" "gpushare rm" "gpushare tag" "gpushare-attach"; do
		run -1 --separate-stderr $words weight
		has "$stderr" 'no buffer is named "weight"'
		has "$stderr" '; did you mean "weight2", "weights" or "wight"?'
		run -1 --separate-stderr $words gradients
		has "$stderr" 'no buffer is named "gradients"'
		refute grep -q "did you mean" <<<"$stderr"
	done
	run -1 --separate-stderr gpushare-attach --wait 0.1 kw
	has "$stderr" 'waited 0.1 s; did you mean "kv"?'
}

@test "a name that begins with '-' is refused by the library and by rules" {
	run -0 --separate-stderr api open alloc=a,-w,1Mi attach=b,-w
	equal "$(grep -c E_NAME <<<"$output")" 2
	GPUSHARE_NAME=-w run -1 gpushare doctor
	has "$output" "a name does not begin with '-'"
}

@test "who started a registry that can't serve hears its reason" {
	no_registry_yet
	mkdir "$GPUSHARE_DIR/registry.lock"
	run -1 --separate-stderr env GPUSHARE_TIMEOUT_MS=1000 gpushare watch
	has "$stderr" "did not listen within 1000 ms: can't open $GPUSHARE_DIR/registry.lock: Is a directory"
	GPUSHARE_LOG=$WORK/log named w "$BIN/rt_app_static" init alloc=a,1Mi
	has "$(cat "$WORK/log")" "can't open $GPUSHARE_DIR/registry.lock: Is a directory"
}

@test "looks start no registry, and say that none runs" {
	no_registry_yet
	for words in ls "ls --json" "ls --deferred" "ls w" events "stat w" stat "rm w" "rm w*" "tag w" "tag w k=v" "get w"; do
		echo "$words"
		read -ra words <<<"$words"
		run -1 --separate-stderr gpushare "${words[@]}"
		equal "$output" ""
		has "$stderr" "no registry listens on $GPUSHARE_DIR"
	done
	run -1 --separate-stderr gpushare-attach w
	has "$stderr" "no registry listens on $GPUSHARE_DIR"
	equal "$(registry_pids)" ""
}
