#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# gpushare tag, and how other verbs show tags and the holders of a buffer.
load helpers

shared() {
	up api "$BIN/api_app" open alloc=a,weights,1Mi alloc=b,_odd..//name-,1Mi make=k,kept,2Mi,keep
	OWNER=$PID
}

@test "tags are set, shown, changed and taken away" {
	shared
	run -0 --separate-stderr gpushare tag weights
	equal "$output$stderr" ""
	run -0 --separate-stderr gpushare tag weights dtype=f16 shape=1024,512
	equal "$output$stderr" ""
	equal "$(gpushare tag weights)" "dtype=f16
shape=1024,512"
	gpushare tag weights dtype=f32 note='a = "b"' -shape -never
	equal "$(gpushare tag weights)" 'dtype=f32
note=a = "b"'
	has "$(gpushare ls)" 'dtype=f32 note=a = "b"'
	has "$(gpushare ls)" TAGS
	has "$(gpushare stat weights)" "tag:         dtype=f32"
	gpushare tag weights -dtype -note
	equal "$(gpushare tag weights)" ""
	[[ $(gpushare ls) != *TAGS* ]]
}

@test "tags as JSON, of tag, ls and stat" {
	needs jq
	shared
	equal "$(gpushare tag --json weights step=7 'q="\' | jq -c .)" '{"step":"7","q":"\"\\"}'
	equal "$(gpushare tag weights --json | jq -r .step)" 7
	equal "$(gpushare ls --json | jq -c '[.[].tags.step]')" '[null,null,"7"]'
	equal "$(gpushare stat --json weights | jq -r .tags.q)" '"\'
	equal "$(gpushare tag --json kept | jq -c .)" '{}'
}

@test "what is refused changes nothing, and is said" {
	shared
	gpushare tag weights a=1 b=2 c=3
	run -1 --separate-stderr gpushare tag weights d=4 e=5
	has "$stderr" "at most 4"
	equal "$output" ""
	run -1 --separate-stderr gpushare tag weights a=9 'b c=1'
	has "$stderr" "key of tag 2"
	run -1 --separate-stderr gpushare tag weights a=9 "c=$(printf 'x\033[2J')"
	has "$stderr" "control character"
	run -1 --separate-stderr gpushare tag weights a=9 "c=$(printf 'x\302\2332J')" # CSI, as one character
	has "$stderr" "control character"
	# a key's character; C1 as a byte, in UTF-8, overlong, after a cut character
	for bad in a/b=9 $'c=a\nb' $'c=a\x7fb' $'c=\x9bm' $'c=b\xc2\x9bm' $'c=\xe0\x82\x9bm' $'c=\xe2\x9bm' $'c=\xf0\x9f\x9b' \
		$'c=\xc2\n' $'c=\xe0\x9f\xbf' $'c=\xf0\x8f\xbf\xbf' $'c=\xf5\x9f\xbf\xbf'; do
		run -1 --separate-stderr gpushare tag weights a=9 "$bad"
		equal "$(gpushare tag weights | tr '\n' ' ')" "a=1 b=2 c=3 "
	done
	# No control characters, though most contain a byte of 0x80 to 0x9f; the last is not UTF-8.
	gpushare tag kept $'a=\xc3\x80\xc3\x9f' $'b=\xe6\x97\xa5\xe6\x9c\xac' $'c=\xf0\x9f\x98\x80' $'d=\xe9t\xe9\xff\xfe'
	equal "$(gpushare tag kept | wc -l)" 4
	gpushare tag kept -a -b e=5 f=6 # two go, so two fit
	equal "$(gpushare tag kept | cut -c 1 | paste -sd '')" cdef
	run -1 --separate-stderr gpushare tag nobody a=1
	has "$stderr" nobody
	run -1 --separate-stderr gpushare tag 'a b' a=1
	has "$stderr" "not a buffer name"
	equal "$(gpushare tag weights | tr '\n' ' ')" "a=1 b=2 c=3 "
}

@test "types and shapes that are none are refused; what readers will stumble over is said" {
	shared
	run -2 --separate-stderr gpushare tag weights dtype=float33
	has "$stderr" "dtype=float33 is not a known type; the types are: f16 bf16"
	run -2 --separate-stderr gpushare tag weights dtype=f32 shape=many
	has "$stderr" "shape=many is not a shape such as 2,3 or 2x3"
	equal "$(gpushare tag weights)" ""
	gpushare tag weights dtype=f32
	run -0 --separate-stderr gpushare tag weights shape=3,3
	has "$stderr" "dtype and shape describe 36 bytes; 'weights' has 1048576"
	run -0 --separate-stderr gpushare tag weights shape=512x512
	equal "$stderr" ""
	run -0 --separate-stderr gpushare tag weights note=float33
	equal "$stderr" ""
}

@test "tag: words that are none are exit code 2, before anybody is asked" {
	misused '' "gpushare tag" "" "--json" "w x" "w =1" "w a=" "w -a=1" "w -" "-a w" "w a=1 --deferred" "w --dir" \
		"w a=1 b=1 c=1 d=1 e=1" "w $(printf 'k%.0s' {1..32})=1" "w k=$(printf 'v%.0s' {1..128})"
	equal "$(registry_pids)" "$([ -z "${EMULATOR:-}" ] || registry_pids)"
}

@test "a name that looks like an option, and a registry elsewhere" {
	shared
	gpushare tag -- _odd..//name- k=v
	equal "$(gpushare tag -- _odd..//name-)" k=v
	equal "$(gpushare stat -- _odd..//name- | sed -n 's/^name: *//p')" _odd..//name-
	here=$GPUSHARE_DIR
	equal "$(GPUSHARE_DIR=/nonexistent gpushare tag --dir "$here" -- _odd..//name-)" k=v
	equal "$(GPUSHARE_DIR=/nonexistent gpushare tag "--dir=$here" -- _odd..//name-)" k=v
	gpushare rm -- _odd..//name-
	run -1 gpushare tag -- _odd..//name-
}

@test "tags stay over the registry's restart, and with a kept buffer over its owner's end" {
	shared
	gpushare tag kept what=state
	for pid in $(registry_pids); do kill -KILL "$pid"; done
	equal "$(gpushare tag kept)" "what=state"
	kill_now "$OWNER"
	until_true eval '[ "$(shown kept owner_alive)" = false ]'
	equal "$(gpushare tag kept)" "what=state"
	gpushare tag kept what=left
	equal "$(gpushare tag kept)" "what=left"
}

@test "stat tells who holds it" {
	shared
	begin one "$BIN/api_app" open attach=w,weights attach=x,weights touch="$WORK/one" await="$WORK/end"
	has "$(gpushare stat weights)" "held by:     api_app[$PID], uid $(id -u), 2 times"
	[ -z "$(command -v jq)" ] || equal "$(gpushare stat --json weights |
		jq -c '.holders[] | [.pid, .command, .count, .own]')" "[$PID,\"api_app\",2,false]"
	[[ $(gpushare stat kept) != *"held by"* ]]
	begin self "$BIN/api_app" open alloc=s,own,4096 another attach=t,own touch="$WORK/self" await="$WORK/end"
	has "$(gpushare stat own)" "held by:     api_app[$PID], uid $(id -u), 1 time, the owner's process itself"
	[ -z "$(command -v jq)" ] || equal "$(gpushare stat --json own | jq -c '.holders[] | [.pid, .count, .own]')" "[$PID,1,true]"
	# more holders than one answer has
	local i pids=()
	for i in {1..33}; do
		start "h$i" "$BIN/api_app" open attach=k,kept touch="$WORK/h$i" await="$WORK/end"
		pids+=("$PID")
	done
	for i in {1..33}; do await_file "$WORK/h$i"; done
	equal "$(gpushare stat kept | sed -n 's/.*api_app\[\([0-9]*\)\], uid.*, 1 time$/\1/p' | sort)" \
		"$(printf '%s\n' "${pids[@]}" | sort)"
}
