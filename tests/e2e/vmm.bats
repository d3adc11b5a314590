#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory made by cuMemCreate: the registry passes its file descriptor to attachers.
load helpers

owner() {
	up owner "$BIN/api_app" open "$@"
}

@test "share, attach from elsewhere, change, see the change" {
	begin owner "$BIN/api_app" open raw=p,4Mi,vmm share=a,weights,p,0,4Mi fill=a,7 touch="$WORK/up" \
		await="$WORK/changed" byte=a,5 free=a list close
	equal "$(api open attach=b,weights size=b byte=b,4 put=b,5,200 detach=b stat=weights close)" "open: OK
attach weights: OK
size b: 4194304
byte b: 35
put b: OK
detach b: OK
stat weights: OK
size 4194304 offset 0 base 4194304 attachers 0 mine 0 uid 1
close: OK"
	touch "$WORK/changed"
	finish "$PID"
	equal "$(cat "$WORK/owner.out")" "open: OK
share weights: OK
fill a: OK
byte a: 200
free a: OK
close: OK"
}

@test "an owner that is killed: the name goes, what is attached stays" {
	owner raw=p,4Mi,vmm share=a,weights,p,0,4Mi fill=a,7
	owner=$PID
	begin guest "$BIN/api_app" open attach=b,weights touch="$WORK/attached" await="$WORK/killed" byte=b,4 \
		put=b,4194303,9 byte=b,4194303 detach=b
	kill -KILL "$owner"
	has "$(api open gone="$owner,weights,1000" stat=weights)" "stat weights: E_NOT_FOUND"
	touch "$WORK/killed"
	finish guest
	equal "$(cat "$WORK/guest.out")" "open: OK
attach weights: OK
byte b: 35
put b: OK
byte b: 9
detach b: OK"
}

@test "an interior range, at its own offset; past the mapping is refused" {
	owner raw=p,4Mi,vmm share=w,whole,p,0,4Mi fill=w,7 share=s,inner,p,2097153,8000
	equal "$(api open attach=b,inner size=b attach=w,whole put=b,7999,3 byte=w,2105152 stat=inner)" "open: OK
attach inner: OK
size b: 8000
attach whole: OK
put b: OK
byte w: 3
stat inner: OK
size 8000 offset 2097153 base 4194304 attachers 1 mine 0 uid 1"
	equal "$(api open raw=p,2Mi,vmm share=a,w,p,1,2Mi share=a,w,p,2097152,1)" "open: OK
share w: E_RANGE
share w: E_NOT_SHAREABLE"
}

@test "the owner itself maps it anew" {
	equal "$(api open raw=p,2Mi,vmm share=a,w,p,0,2Mi fill=a,7 attach=b,w same=a,b byte=b,4 put=b,4,1 byte=a,4 \
		stat=w detach=b byte=a,4 free=a stat=w | grep -v ' OK$')" "same: no
byte b: 35
byte a: 1
size 2097152 offset 0 base 2097152 attachers 1 mine 1 uid 1
byte a: 1
stat w: E_NOT_FOUND"
}

@test "memory without a handle type says what to request" {
	run -0 --separate-stderr api open raw=p,2Mi,private share=a,w,p,0,2Mi list
	equal "$output" "open: OK
share w: E_NOT_SHAREABLE"
	has "$stderr" CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
}

@test "what can't be mapped here is E_NOT_SUPPORTED, and not attached" {
	needs_sim
	owner raw=p,2Mi,vmm share=a,w,p,0,2Mi
	run -0 --separate-stderr env GPUSHARE_SIM_FAIL=cuMemMap:1:1:801 "$BIN/api_app" open attach=b,w stat=w attach=b,w
	equal "$output" "open: OK
attach w: E_NOT_SUPPORTED
stat w: OK
size 2097152 offset 0 base 2097152 attachers 0 mine 0 uid 1
attach w: OK"
	has "$stderr" cuMemMap
}

@test "ls and stat tell of it" {
	needs jq
	owner raw=p,4Mi,vmm share=a,w,p,0,5000
	has "$(gpushare stat w)" "backing:     vmm"
	has "$(gpushare stat w)" "isolated:    yes"
	equal "$(gpushare ls --json | jq -c '.[] | [.backing, .size, .base_size, .held, .isolated]')" \
		'["vmm",5000,4194304,4194304,true]'
	[[ $(gpushare ls) =~ w\ +5000\ +4194304\ +GPU ]]
	equal "$(gpushare-attach w | wc -c)" 5000
}

@test "the registry keeps one descriptor a name and none for long" {
	owner alloc=x,ipc,1Mi
	api open raw=p,2Mi,vmm share=a,w,p,0,5000 >/dev/null # from then on it has a keeper
	before=$(registry_fds)
	begin many "$BIN/api_app" open raw=p,2Mi,vmm many=p,300 touch="$WORK/all" await="$WORK/end"
	equal "$(lines "$(names)")" 301
	[ "$(registry_fds)" -ge $((before + 300)) ]
	kill -KILL "$PID"
	until_true fds_are $((before + 1))
	equal "$(names)" "ipc 1048576"
}

# order CALL...: which of these driver calls were made, in order
order() {
	grep -oE "\b($(IFS='|' && echo "$*"))\b" "$WORK/log" | tr '\n' ' '
}

@test "one connection for several attaches; a new one after silence, and to the next registry" {
	local step count sockets=()
	up owner "$BIN/api_app" open make=a,v1,2Mi,vmm fill=a,7 make=b,v2,2Mi,vmm make=c,v3,2Mi,vmm make=d,v4,2Mi,vmm
	start guest "$BIN/api_app" open attach=a,v1 touch="$WORK/1" await="$WORK/go1" attach=b,v2 touch="$WORK/2" \
		await="$WORK/go2" attach=c,v3 touch="$WORK/3" await="$WORK/go3" attach=d,v4 byte=a,4 touch="$WORK/4" \
		await="$WORK/go4"
	guest=$PID
	for step in 1 2 3 4; do
		await_file "$WORK/$step"
		sockets[step]=$(find "/proc/$guest/fd" -lname 'socket:*' -printf '%l\n' | sort)
		case $step in
		2) sleep 6 ;; # the registry closes a connection after 5 s of silence
		3) kill_registry ;;
		esac
		touch "$WORK/go$step"
	done
	finish "$guest"
	equal "$(grep -v '^touch\|^await' "$WORK/guest.out")" "open: OK
attach v1: OK
attach v2: OK
attach v3: OK
attach v4: OK
byte a: 35"
	# All have the session's socket and that of fds.sock; a real driver may have some of its own.
	count=$(wc -l <<<"${sockets[1]}")
	[ "$count" -ge 2 ]
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || equal "$count" 2
	for step in 2 3 4; do
		equal "$(wc -l <<<"${sockets[step]}")" "$count"
	done
	equal "${sockets[2]}" "${sockets[1]}"
	equal "$(comm -12 <(echo "${sockets[3]}") <(echo "${sockets[2]}") | wc -l)" $((count - 1))
	equal "$(comm -12 <(echo "${sockets[4]}") <(echo "${sockets[3]}") | wc -l)" $((count - 2))
}

@test "a context that ends takes an attached mapping along, behind its work and not before" {
	needs_sim
	up_named owner weights "$BIN/drv_linked" init make=a,vmm,2Mi fill=a,7
	export GPUSHARE_SIM_LOG=$WORK/log
	for kept in yes no; do
		rm -f "$WORK/log"
		words=(init ctxnew=B stream=s make=a,async,2Mi,s stall=s drop=a,async,s)
		[ $kept = no ] || words=(init ctxnew=B make=a,alloc,2Mi)
		attaching weights "$BIN/drv_linked" "${words[@]}" ctxdestroy=B >"$WORK/out"
		equal "$(tail -n 1 "$WORK/out")" "ctxdestroy B: 0"
		equal "$(order cuMemMap cuMemUnmap cuCtxDestroy_v2)" "cuMemMap cuCtxDestroy_v2 cuMemUnmap "
	done
}

@test "a name ends with the last handle or the last mapping, whichever is later" {
	words=(init make=a,vmm,2Mi make=b,vmm,2Mi retain=b)
	alike "$BIN/drv_linked" "${words[@]}" handle=a unmap=b,2Mi unmap=a,2Mi handle=b handle=b
	begin_named app 'w%i' "$BIN/drv_linked" "${words[@]}" handle=a unmap=b,2Mi touch="$WORK/up" await="$WORK/go" \
		unmap=a,2Mi handle=b touch="$WORK/gone" await="$WORK/end"
	equal "$(names)" "w0 2097152
w1 2097152"
	resume go gone
	equal "$(names)" ""
}

@test "a mapping is unmapped in part: refused as ever, and its name stays" {
	words=(init make=a,vmm,4Mi handle=a unmap=a,2Mi)
	alike "$BIN/drv_linked" "${words[@]}" unmap=a,4Mi
	begin_named app 'w%i' "$BIN/drv_linked" "${words[@]}" touch="$WORK/up" await="$WORK/go" unmap=a,4Mi \
		touch="$WORK/gone" await="$WORK/end"
	equal "$(tail -n 1 "$WORK/app.out")" "unmap a: 1"
	equal "$(names)" "w0 4194304"
	resume go gone
	equal "$(tail -n 1 "$WORK/app.out")" "unmap a: 0"
	equal "$(names)" ""
}
