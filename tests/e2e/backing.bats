#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Rules that ask for mapped memory (vmm, keep, readonly): an unmodified program's allocation is
# cuMemCreate memory behind an ordinary-looking pointer, and the program does not notice.
load helpers

PROGRAMS=(rt_app_static rt_app_shared rt_thread_static drv_linked "drv_lookup dlsym" "drv_lookup gpa2_t")

# ways PROGRAM: the ways to allocate that take the backing, in WAYS
ways() {
	WAYS=(alloc pitch async pool)
	[[ $1 != rt_* ]] || WAYS=(malloc pitch 3d async pool entry-alloc)
}

# same_as_bare PROGRAM...: named with mapped memory, the output and exit code of a bare run, and
# nothing said
same_as_bare() {
	untouched 'w%i:vmm' "$@"
	equal "$stderr" ""
}

backings() {
	gpushare ls --json | jq -r '.. | objects | select(.name?) | "\(.name) \(.backing) \(.size)"' | sort
}

gone() {
	[ -z "$(names)" ]
}

@test "every way to allocate is mapped memory under its name, and nothing else of it shows" {
	needs jq
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		ways "$program"
		for way in "${WAYS[@]}"; do
			echo "$program $way"
			script=(init make=a,"$way",2Mi fill=a,3 byte=a,5 make=b,"$way",3000000 fill=b,4)
			same_as_bare "${PROGRAM[@]}" "${script[@]}" byte=b,9 drop=a drop=b drop=b exit=3
			rm -f "$WORK"/{up,free,freed,end}
			start_named app 'w%i:vmm' "${PROGRAM[@]}" "${script[@]}" touch="$WORK/up" await="$WORK/free" \
				byte=a,6 drop=a drop=b touch="$WORK/freed" await="$WORK/end"
			await_file "$WORK/up"
			equal "$(backings | cut -d' ' -f1,2)" "w0 vmm
w1 vmm"
			equal "$(api open attach=b,w0 byte=b,5 put=b,6,77 | tail -n 2)" "byte b: 38
put b: OK"
			touch "$WORK/free"
			await_file "$WORK/freed"
			equal "$(tail -n 3 "$WORK/app.out" | head -n 1)" "byte a: 77"
			equal "$(names)" ""
			touch "$WORK/end"
			finish "$PID"
		done
	done
}

@test "the size asked for is told to the program and to others, the rounding by ls" {
	needs jq
	script=(init alloc=a,700 range=a alloc=b,3Mi range=b fill=a,3 byte=a,699)
	same_as_bare "$BIN/drv_linked" "${script[@]}"
	start_named app 'w%i:vmm' "$BIN/drv_linked" "${script[@]}" touch="$WORK/up" await="$WORK/end"
	await_file "$WORK/up"
	equal "$(backings)" "w0 vmm 700
w1 vmm 3145728"
	equal "$(shown w0 held) $(shown w1 held)" "2097152 4194304"
}

@test "refused calls answer the same: size 0, no out pointer, double, foreign, interior, NULL" {
	for program in "${PROGRAMS[@]}"; do
		program "$program"
		same_as_bare "${PROGRAM[@]}" init errno nullout=1Mi alloc=a,0 alloc=a,2Mi at=b,a,512 drop=b,free \
			foreign=c,0x7ff000001000 drop=c,free foreign=d,0 drop=d,free drop=d,async \
			free=a free=a make=e,async,0 make=e,pool,0 exit=2
	done
}
