#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Mirrors: pinned host copies of buffers, written back or not.
load helpers

# says EXPECTED WORDS...: api_app, after filling 100000 bytes in slot b, prints EXPECTED. Its errors are in $stderr.
says() {
	run -0 --separate-stderr timeout 60 "$BIN/api_app" open alloc=b,x,100000 fill=b,7 "${@:2}"
	equal "$(sed 1,3d <<<"$output")" "$1"
}

@test "any offset and length: what is mirrored changes, and nothing beside it" {
	for at in 0 1 63 4097 50001; do
		for length in 1 2 65 4099 49998; do
			says "mirror m: OK
mirrors m: the same
mclose m: OK
mirror n: OK
mirror o: OK
mirrors n: the same
mbyte n: 200
mbyte n: 200
byte b: $(((7 + (at + length) * 7 + ((at + length) >> 8) * 13) % 256))" mirror=m,b,$at,$length,rw mirrors=m,b,$at \
				mput=m,0,200,$length mclose=m mirror=n,b,$at,$length,r mirror=o,b,0,100000,r mirrors=n,b,$at mbyte=n,0 \
				mbyte=n,$((length - 1)) byte=b,$((at + length))
		done
	done
}

@test "each is the buffer as it was then; of several the last one written back wins; a dropped one changes nothing" {
	says "mirror r: OK
mirror m: OK
mirror n: OK
mirror d: OK
byte b: 35
msync m: OK
byte b: 97
byte b: 97
mclose m: OK
mclose n: OK
mbyte r: 35
byte b: 97
byte b: 84
byte b: 99
msync r: E_INVALID
mclose r: OK
byte b: 97" mirror=r,b,0,100000,r mirror=m,b,0,100000,w mirror=n,b,11,100,rw mirror=d,b,0,100000,rw mput=m,0,97,100000 \
		mput=d,0,98,100000 mdrop=d byte=b,4 msync=m byte=b,4 byte=b,11 mput=m,99999,99 mclose=m mclose=n mbyte=r,4 byte=b,10 \
		byte=b,11 byte=b,99999 mput=r,0,1,100000 msync=r mclose=r byte=b,4
	has "$stderr" "GPUSHARE_WRITE"
}

@test "what makes no sense is refused; no bytes at the end are a mirror, and take no pinned memory" {
	export GPUSHARE_SIM_LOG=$WORK/log
	says "mirror m: E_INVALID
mirror m: E_INVALID
mirror m: E_RANGE
mirror m: E_RANGE
mirror m: E_RANGE
mirror m: E_RANGE
msync m: E_INVALID
mclose m: OK
mirror m: OK
msync m: OK
mclose m: OK" mirror=m,z,0,1,r mirror=m,b,0,1,x mirror=m,b,100000,1,r mirror=m,b,1,100000,w mirror=m,b,2,0xffffffffffffffff,r \
		mirror=m,b,100001,0,r msync=m mclose=m mdrop=m mirror=m,b,100000,0,rw msync=m mclose=m
	has "$stderr" "0x0"
	has "$stderr" "100000"
	[ "${GPUSHARE_TEST_DRIVER:-sim}" != sim ] || run -1 grep cuMemHostAlloc "$WORK/log"
}

@test "pinned memory is used again: never more of it than mirrors were open at once" {
	needs_sim
	GPUSHARE_SIM_LOG=$WORK/log run -0 api open alloc=b,x,100000 mirror=m,b,0,50000,r mirror=n,b,0,9000,r mclose=m mclose=n \
		repeat=20,4 mirror=m,b,0,49999,r mirror=n,b,1,8999,r mclose=m mclose=n touch="$WORK/used" \
		mirror=o,b,0,100000,r mclose=o close
	equal "$(grep -c 'cuMemHostAlloc 0' "$WORK/log") $(grep -c 'cuMemFreeHost 0' "$WORK/log")" "3 3"
}

@test "each call of the driver that fails: it is named, the mirror stays open with its bytes" {
	needs_sim
	export GPUSHARE_SIM_LOG=$WORK/log GPUSHARE_SIM_FAIL=cuMemHostAlloc:1:1:2,cuMemcpyDtoH:1:1,cuMemcpyHtoD:2:1,cuStreamSynchronize:2:1
	says "mirror m: E_NO_MEMORY
mirror m: E_CUDA
mirror m: OK
mclose m: E_CUDA
msync m: E_CUDA
mbyte m: 109
mclose m: OK
byte b: 109
byte b: $(((7 + 77777 * 7 + (77777 >> 8) * 13) % 256))
close: OK" mirror=m,b,0,77777,rw mirror=m,b,0,77777,rw mirror=m,b,0,77777,rw mput=m,0,109,77777 mclose=m msync=m mbyte=m,77776 \
		mclose=m byte=b,77776 byte=b,77777 close
	has "$stderr" "77824 bytes of pinned host memory to mirror 'x'"
	has "$stderr" "cuMemcpyDtoH"
	has "$stderr" "the mirror is still open"
	equal "$(grep -c 'cuMemHostAlloc 0' "$WORK/log") $(grep -c 'cuMemFreeHost 0' "$WORK/log")" "1 1"
}

@test "a mirror holds what was detached or freed; the session's end drops it without writing back" {
	begin owner "$BIN/api_app" open alloc=x,x,4096 alloc=y,y,4096 fill=x,7 fill=y,7 touch="$WORK/up" await="$WORK/detached" \
		stat=x touch="$WORK/seen" await="$WORK/closed" stat=x byte=x,4 mirror=m,y,0,4096,rw free=y stat=y mput=m,0,3 \
		mclose=m touch="$WORK/third" await="$WORK/dropped" byte=x,4
	api open attach=b,x mirror=m,b,0,4096,rw detach=b attach=c,x mirror=n,c,0,10,rw mput=m,0,50,4096 mclose=m detach=c \
		touch="$WORK/detached" await="$WORK/seen" mdrop=n touch="$WORK/closed" await="$WORK/third" attach=b,x \
		mirror=m,b,0,4096,rw mput=m,0,99,4096 detach=b close touch="$WORK/dropped" >"$WORK/other"
	finish owner
	equal "$(grep -c ': E_' "$WORK/other")" 0
	equal "$(sed 1,5d "$WORK/owner.out" | sed 's/ offset.*attachers/ attachers/; s/ mine.*//')" "stat x: OK
size 4096 attachers 1
stat x: OK
size 4096 attachers 0
byte x: 50
mirror m: OK
free y: OK
stat y: E_NOT_FOUND
mclose m: OK
byte x: 50"
}

@test "the memory's context ends under an open mirror: its bytes stay, to be dropped" {
	run -0 --separate-stderr api open context=new raw=p,1Mi,here share=b,x,p,0,4096 fill=b,7 context mirror=m,b,0,4096,rw \
		context=none msync=m context=same context=end mclose=m mbyte=m,4 mirror=n,b,0,1,r mdrop=m free=b
	equal "$(sed 1,3d <<<"$output")" "mirror m: OK
msync m: OK
context: the same
mclose m: E_CUDA
mbyte m: 35
mirror n: E_CUDA
free b: OK"
	has "$stderr" "the mirror is still open"
}
