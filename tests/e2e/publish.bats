#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GPUSHARE_PUBLISH: the preload publishes the named buffers of unmodified programs. Also the readers of these:
# gpushare-attach --follow and --wait-for.
load helpers

setup_more() {
	needs jq
}

# publishing WHEN RULES TAG PROGRAM...: start PROGRAM in the background under the preload
publishing() {
	start "$3" env LD_PRELOAD="$PRELOAD" GPUSHARE_PUBLISH="$1" GPUSHARE_NAME="$2" "${@:4}"
}

# sequence NAME: the number of times NAME was published
sequence() {
	gpushare stat --json "$1" | jq '.sequence // 0'
}

has_sequence() {
	[ "$(sequence "$1")" = "$2" ]
}

# step N: let the program run to its Nth mark, where it waits (see mark)
step() {
	[ "$1" = 1 ] || touch "$WORK/go$(($1 - 1))"
	await_file "$WORK/at$1"
}

# end_program: let the program finish, which waits for $WORK/end
end_program() {
	down
	rm -f "$WORK"/at* "$WORK"/go* "$WORK/end"
}

# follow TAG ARGUMENT...: start gpushare-attach --follow and wait until it consumes; FOLLOWER is its pid
follow() {
	start "$1" gpushare-attach --follow "${@:2}"
	FOLLOWER=$PID
	until_true consumes "$FOLLOWER"
}

# An attachment alone is not enough: on a real driver, mapping comes between attaching and joining.
consumes() {
	grep -q memfd:gpushare-order "/proc/$1/maps"
}

is_shared() {
	[[ $(names) == "$1 "* ]]
}

has_size() {
	[ "$(stat -c %s "$1" 2>/dev/null)" = "$2" ]
}

@test "sync: each wait that went well publishes each named buffer once, however it is looked up" {
	for program in rt_app_static rt_app_shared rt_app_11 rt_app_12 drv_linked "drv_lookup dlsym" \
		"drv_lookup gpa2"; do
		# shellcheck disable=SC2086 # a program and its argument
		publishing sync a,b app "$BIN"/$program init alloc=x,1Mi alloc=y,2Mi stream=s \
			touch="$WORK/at1" await="$WORK/go1" fill=x,7 go=s touch="$WORK/at2" \
			await="$WORK/go2" go=s go=s touch="$WORK/at3" await="$WORK/end"
		step 1
		equal "$program $(sequence a) $(sequence b)" "$program 0 0"
		step 2
		equal "$program $(sequence a) $(sequence b)" "$program 1 1"
		step 3
		equal "$program $(sequence a) $(sequence b)" "$program 3 3"
		equal "$(cat "$WORK/app.err")" ""
		end_program
	done
}

@test "sync: a device, a stream, a thread's own stream, an event, in each runtime" {
	for program in rt_app_static rt_app_shared rt_app_11 rt_app_12; do
		publishing sync w app "$BIN/$program" init alloc=x,1Mi wait=device touch="$WORK/at1" \
			await="$WORK/go1" wait=stream touch="$WORK/at2" await="$WORK/go2" wait=thread \
			touch="$WORK/at3" await="$WORK/go3" wait=event touch="$WORK/at4" await="$WORK/end"
		for n in 1 2 3 4; do
			step $n
			equal "$program $(sequence w)" "$program $n"
		done
		end_program
		equal "$(grep -c ': 0$' "$WORK/app.out")" 6
	done
}

@test "sync: through the second libcuda that a program loads, if that one is the driver" {
	needs_sim
	publishing sync w app "$BIN/drv_loader" open=c,libcuda.so.1 open=d,"$BUILD/sim/old/libcuda.so.1" use=d use=c init \
		alloc=x,1Mi stream=s go=s touch="$WORK/at1" await="$WORK/go1" use=d go=s use=c touch="$WORK/at2" await="$WORK/end"
	step 1
	equal "$(sequence w)" 1
	step 2
	equal "$(sequence w)" 1
	end_program
	equal "$(sed -n 's/^go s: //p' "$WORK/app.out")" "0
3"
}

@test "sync: a wait that a stream capture refuses publishes nothing, and the capture ends as without us" {
	script=(init alloc=x,1Mi stream=s go=s capture=s go=s endcapture=s)
	plain=$("$BIN/drv_linked" "${script[@]}" 2>&1 </dev/null)
	publishing sync w app "$BIN/drv_linked" "${script[@]}" touch="$WORK/at1" await="$WORK/end"
	step 1
	equal "$(sequence w)" 1
	equal "$(cat "$WORK/app.out")" "$plain"
	end_program
}

@test "sync: threads that wait at a time publish once a wait" {
	publishing sync 'w%i' app "$BIN/rt_app_static" init alloc=x,1Mi alloc=y,1Mi waits=8,200 \
		touch="$WORK/at1" await="$WORK/end"
	step 1
	equal "$(sequence w0) $(sequence w1)" "1600 1600"
	end_program
}

@test "sync: who waits for a publication finds it whole" {
	publishing sync w app "$BIN/rt_app_static" init alloc=x,4Mi touch="$WORK/at1" await="$WORK/go1" \
		fill=x,5 wait=device save=x,"$WORK/first" touch="$WORK/at2" await="$WORK/go2" \
		fill=x,9 wait=device save=x,"$WORK/second" touch="$WORK/at3" await="$WORK/end"
	step 1
	run -1 --separate-stderr gpushare-attach w --wait-for 1 --timeout 0.2 -o "$WORK/dump"
	has "$stderr" "publication 1 of 'w' did not come within 0.2 s; the last was 0"
	has "$stderr" "GPUSHARE_PUBLISH=sync"
	[ ! -e "$WORK/dump" ]
	start waiter gpushare-attach w --wait-for 1 --timeout 20 -o "$WORK/dump"
	step 2
	finish waiter
	cmp "$WORK/dump" "$WORK/first"
	step 3
	gpushare-attach w --wait-for 2 -o "$WORK/dump"
	cmp "$WORK/dump" "$WORK/second"
}

@test "follow: each publication into a file of its own, until the owner has gone" {
	publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi touch="$WORK/at1" await="$WORK/go1" \
		fill=x,1 wait=stream save=x,"$WORK/saved.1" touch="$WORK/at2" await="$WORK/go2" \
		fill=x,2 wait=stream save=x,"$WORK/saved.2" touch="$WORK/at3" await="$WORK/go3" \
		fill=x,3 wait=stream save=x,"$WORK/saved.3" touch="$WORK/at4" await="$WORK/end"
	app=$PID
	step 1
	follow f w -o "$WORK/w.%s"
	for n in 1 2 3; do
		step $((n + 1))
		await_file "$WORK/w.$n"
		cmp "$WORK/w.$n" "$WORK/saved.$n"
	done
	down "$app"
	finish "$FOLLOWER"
	equal "$(cat "$WORK/f.err")" ""
	equal "$(find "$WORK" -name 'w.*' | wc -l)" 3
}

@test "follow: a producer that is killed ends it; what was published is there, and no more" {
	publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi touch="$WORK/at1" await="$WORK/go1" \
		fill=x,1 wait=stream save=x,"$WORK/saved" fill=x,2 touch="$WORK/at2" await="$WORK/end"
	app=$PID
	step 1
	follow f w --wait-for 2 -o "$WORK/w.%s"
	step 2
	kill -KILL "$app"
	finish "$FOLLOWER"
	[ ! -e "$WORK/w.1" ]
	[ ! -e "$WORK/w.2" ]
}

@test "follow: to standard output, --count, a signal" {
	publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi fill=x,1 wait=stream \
		save=x,"$WORK/saved" touch="$WORK/at1" await="$WORK/end"
	step 1
	gpushare-attach w --follow --count 1 >"$WORK/dump"
	cmp "$WORK/dump" "$WORK/saved"
	for type in "u8 512x512x4" "f16 512x1024"; do
		words=(--format png --dtype "${type% *}" --shape "${type#* }")
		gpushare get w "${words[@]}" >"$WORK/once" 2>"$WORK/once.err"
		gpushare follow w --count 1 "${words[@]}" >"$WORK/dump" 2>"$WORK/dump.err"
		cmp "$WORK/dump.err" "$WORK/once.err"
		cmp "$WORK/dump" "$WORK/once"
	done
	follow f w
	until_true has_size "$WORK/f.out" 1048576
	kill -TERM "$FOLLOWER"
	ends_with $((128 + 15)) "$FOLLOWER"
	cmp "$WORK/f.out" "$WORK/saved"
	run -1 --separate-stderr gpushare-attach w --follow --timeout 0.1
	has "$stderr" "publication 2 of 'w' did not come within 0.1 s; the last was 1"
}

@test "follow: progress on a terminal after a second, with an end where one is known" {
	for words in "--count 2" ""; do
		publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi touch="$WORK/at1" await="$WORK/go1" \
			fill=x,1 wait=stream touch="$WORK/at2" await="$WORK/end"
		step 1
		# shellcheck disable=SC2086 # words
		terminal 24x100 printed="gpushare: " printed=" 0 B" touch="$WORK/go1" \
			printed="$([ "$words" ] && echo "1 MiB of 2 MiB, 50%, " || echo "1 MiB, ")" printed="/s" \
			touch="$WORK/end" end=0 -- gpushare follow w -o "$WORK/w.%s" $words
		end_program
	done
}

@test "follow: with back-pressure nothing is missed and nothing is torn" {
	mkfifo "$WORK/go"
	# shellcheck disable=SC2016 # for the inner one
	start producer bash -c 'exec "$1" produce ring 1 100000000 host <>"$2"' bash "$BIN/api_order" "$WORK/go"
	until_true is_shared ring
	start f gpushare-attach --follow ring --count 20 -o "$WORK/ring.%s"
	echo >"$WORK/go"
	finish f
	equal "$(cat "$WORK/f.err")" ""
	first=$(find "$WORK" -name 'ring.*' | sed 's/.*ring\.//' | sort -n | head -n 1)
	for ((n = first; n < first + 20; n++)); do # what api_order puts into a frame
		equal "$(od -An -td8 -N8 "$WORK/ring.$n" | tr -d ' ')" $((n * 0x9e3779b97f4a7c15))
	done
}

@test "free: published behind the work that the free waits for" {
	for rule in w w:vmm; do
		publishing free "$rule" app "$BIN/rt_app_static" init alloc=x,1Mi stream=s fill=x,6 go=s \
			save=x,"$WORK/saved" touch="$WORK/at1" await="$WORK/go1" free=x \
			touch="$WORK/at2" await="$WORK/end"
		step 1
		equal "$(sequence w)" 0
		follow f w -o "$WORK/dump.%s"
		halt "$FOLLOWER" # it may well look only when all is over
		step 2
		kill -CONT "$FOLLOWER"
		finish "$FOLLOWER"
		equal "$(cat "$WORK/f.err")" ""
		cmp "$WORK/dump.1" "$WORK/saved"
		rm "$WORK"/dump.*
		end_program
	done
}

@test "free: not before the GPU's work" {
	for rule in w w:vmm; do
		publishing free "$rule" app "$BIN/drv_linked" init alloc=x,1Mi stream=s stall=s touch="$WORK/at1" await="$WORK/go1" \
			aside=free,x await="$WORK/go2" go=s rejoin touch="$WORK/at2" await="$WORK/end"
		step 1
		follow f w -o "$WORK/dump.%s"
		touch "$WORK/go1"
		nothing_published() { has_sequence w 0 && [ ! -e "$WORK/dump.1" ]; }
		stays 300 nothing_published
		resume go2 at2
		await_file "$WORK/dump.1"
		finish "$FOLLOWER"
		rm "$WORK"/dump.*
		end_program
	done
}

@test "free: memory that the program maps by itself, when it goes; not what is freed in stream order" {
	publishing free 'w%i' app "$BIN/drv_linked" init stream=s make=a,vmm,2Mi fill=a,6 \
		save=a,"$WORK/saved" make=b,async,2Mi,s go=s touch="$WORK/at1" await="$WORK/go1" \
		drop=a,vmm drop=b,async,s go=s touch="$WORK/at2" await="$WORK/end"
	step 1
	follow mapped w0 -o "$WORK/mapped.%s"
	mapped=$FOLLOWER
	follow async w1 -o "$WORK/async.%s"
	step 2
	finish "$mapped"
	cmp "$WORK/mapped.1" "$WORK/saved"
	finish "$FOLLOWER"
	[ ! -e "$WORK/async.1" ]
	end_program
}

@test "exit: published when the program ends by itself, not when it is killed" {
	for ending in exit=3 _exit=3; do
		publishing exit w:keep app "$BIN/rt_app_static" init alloc=x,1Mi fill=x,6 wait=device \
			save=x,"$WORK/saved" touch="$WORK/at1" await="$WORK/end" $ending
		app=$PID
		step 1
		follow f w -o "$WORK/dump.%s"
		touch "$WORK/end"
		ends_with 3 "$app"
		finish "$FOLLOWER"
		if [ $ending = exit=3 ]; then
			cmp "$WORK/dump.1" "$WORK/saved"
			rm "$WORK"/dump.*
		else
			[ ! -e "$WORK/dump.1" ]
		fi
		gpushare rm w
		rm -f "$WORK"/at* "$WORK"/end
	done
}

@test "all of them together; a forked child publishes nothing" {
	publishing sync,free,exit w app "$BIN/rt_app_static" init alloc=x,1Mi wait=device fork=exit \
		touch="$WORK/at1" await="$WORK/go1" free=x alloc=x,1Mi
	app=$PID
	step 1
	equal "$(sequence w)" 1
	touch "$WORK/go1"
	finish "$app"
	equal "$(cat "$WORK/app.err")" ""
}

@test "a wait that fails publishes nothing" {
	needs_sim
	export GPUSHARE_SIM_FAIL=cuStreamSynchronize:1:99:999,cuCtxSynchronize:1:99:999,cuEventSynchronize:1:99:999
	publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi wait=stream wait=thread wait=device wait=event \
		touch="$WORK/at1" await="$WORK/end"
	step 1
	equal "$(grep -c '^wait [a-z]*: 999' "$WORK/app.out")" 4
	equal "$(sequence w)" 0
	end_program
}

@test "a value that is none is one line, and the program runs as without it" {
	for value in '>>>nonsense<<<' 'sync,>>>nonsense<<<' '>>><<<,sync' 'sync,>>><<<' '>>>SYNC<<<' '>>><<<,' '>>> sync<<<' \
		'sync,>>>fre<<<,exit' '>>>syncs<<<'; do
		run -0 --separate-stderr env LD_PRELOAD="$PRELOAD" GPUSHARE_PUBLISH="${value//[<>]/}" GPUSHARE_NAME=w \
			"$BIN/rt_app_static" init alloc=x,1Mi wait=device
		equal "$(lines "$stderr")" 1
		has "$stderr" "gpushare: GPUSHARE_PUBLISH: "
		has "$stderr" "$value"
	done
	GPUSHARE_PUBLISH=$(printf 'x%.0s' {1..4095}) run -0 --separate-stderr named w "$BIN/rt_app_static" init alloc=x,1Mi
	equal "$(lines "$stderr")" 1
	has "$stderr" "<<<"
	for value in '' free,sync,sync; do
		GPUSHARE_PUBLISH=$value run -0 --separate-stderr named w "$BIN/rt_app_static" init alloc=x,1Mi
		equal "$stderr" ""
	done
	GPUSHARE_PUBLISH=nonsense publishing nonsense w app "$BIN/rt_app_static" init alloc=x,1Mi \
		wait=device touch="$WORK/at1" await="$WORK/end"
	step 1
	equal "$(sequence w)" 0
	end_program
}

@test "without a rule that names nothing happens; without GPUSHARE_PUBLISH nothing is published" {
	no_registry_yet
	export GPUSHARE_PUBLISH=sync,free,exit
	untouched '' "$BIN/rt_app_static" init alloc=x,1Mi wait=device free=x
	equal "$stderr" ""
	equal "$(ls -A "$GPUSHARE_DIR")" ""
	untouched never:size=512Gi "$BIN/rt_app_static" init alloc=x,1Mi wait=device census free=x
	equal "$stderr" ""
	equal "$(ls -A "$GPUSHARE_DIR")" ""
	unset GPUSHARE_PUBLISH
	start_named app w "$BIN/rt_app_static" init alloc=x,1Mi wait=device touch="$WORK/at1" await="$WORK/end"
	step 1
	equal "$(sequence w)" 0
	end_program
}

@test "no registry: nothing waits longer than it may, nothing is said" {
	no_registry_yet
	export GPUSHARE_PUBLISH=sync,free,exit GPUSHARE_AUTOSTART=0
	untouched 'w%i' "$BIN/rt_app_static" errno init alloc=x,1Mi wait=device waits=2,1000 free=x exit=4
	equal "$stderr" ""
}

@test "a registry that was killed: publications go on, and the next one hears of them" {
	publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi wait=device touch="$WORK/at1" \
		await="$WORK/go1" wait=device wait=device touch="$WORK/at2" await="$WORK/go2" \
		wait=device wait=device touch="$WORK/at3" await="$WORK/end"
	app=$PID
	step 1
	equal "$(sequence w)" 1
	kill_registry
	step 2
	equal "$(sequence w)" 3
	asks_again
	step 3
	equal "$(sequence w)" 5
	start f gpushare-attach --follow w -o "$WORK/w.%s"
	await_file "$WORK/w.5"
	kill -KILL "$app"
	finish f
	equal "$(cat "$WORK/f.err")" ""
}

@test "a registry that was killed with all that it kept: the page is given back, the numbers go on" {
	publishing sync w app "$BIN/rt_app_static" init alloc=x,1Mi wait=device touch="$WORK/at1" \
		await="$WORK/go1" wait=device wait=device touch="$WORK/at2" await="$WORK/end"
	step 1
	equal "$(sequence w)" 1
	# shellcheck disable=SC2046 # pids
	kill -KILL $(registry_pids) $(keeper_pids)
	rm -f "$GPUSHARE_DIR/registry.state"
	asks_again
	step 2
	until_true has_sequence w 3
	end_program
}

@test "the next registry has another page for the name: publications go on there, the missed one too" {
	publishing sync w,x app "$BIN/rt_app_static" init alloc=x,1Mi wait=device touch="$WORK/at1" await="$WORK/go1" \
		alloc=y,2Mi touch="$WORK/at2" await="$WORK/go2" wait=device touch="$WORK/at3" await="$WORK/end"
	step 1
	# shellcheck disable=SC2046 # pids
	kill -KILL $(registry_pids) $(keeper_pids)
	rm -f "$GPUSHARE_DIR/registry.state"
	asks_again
	step 2
	follow f w -o "$WORK/w.%s"
	step 3
	published() { compgen -G "$WORK/w.*"; }
	until_true published
	end_program
}

@test "usage: what does not go together" {
	for words in "--follow" "a b --follow" "a --follow --into f" "a --wait-for 0" "a --wait-for x" \
		"a --count 2" "a --follow --count 0" "a --timeout 2" "a --follow --rate" \
		"--restore d --follow" "a --follow --timeout x" "a* --follow -o d/"; do
		# shellcheck disable=SC2086 # words
		run -2 --separate-stderr gpushare-attach $words
		equal "$(lines "$stderr")" 1
	done
}
