#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A program that fills the GPU: naming takes no memory that the program needs. On a real GPU no other test file runs
# beside this one.
load helpers

@test "a nearly full device: no allocation fails that succeeds without us, and what is not named is logged" {
	for program in rt_app_static drv_linked "drv_lookup gpa2_t"; do
		program "$program"
		for rule in 'w%i:size=1-1Mi' 'w%i:size=1-1Mi:vmm' 'w%i:size=1-1Mi:keep'; do
			echo "$program, $rule"
			rm -f "$WORK/log"
			GPUSHARE_LOG=$WORK/log untouched "$rule" "${PROGRAM[@]}" init brim=64Mi hoard=1,3000,4Ki make=a,async,4Ki \
				fill=a,3 byte=a,4 make=b,pitch,64Ki fill=b,5 byte=b,4 make=c,pool,4Ki fill=c,3 drop=c drop=b drop=a \
				release
			equal "$stderr" ""
			grep -q '"w0" is not shared: .*no room' "$WORK/log"
			grep -q '"w3002" is not shared: .*no room' "$WORK/log"
		done
	done
}
