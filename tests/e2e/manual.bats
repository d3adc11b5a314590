#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The manual: its pages are well formed and describe everything that exists.
load helpers

setup_more() {
	[ -d "$ROOT/tools/man" ] || skip "no source tree here"
	needs scdoc
	MAN=$BUILD/man
}

# Print the words of a page without macros and font changes.
words() {
	sed 's/^\.[A-Z]* //; s/\\f[A-Z]//g; s/\\&//g; s/\\-/-/g; s/\\(aq/'"'"'/g; s/\\e/\\/g' "$MAN/$1"
}

# missing PAGE WORD...: the WORDs that PAGE does not contain as separate words
missing() {
	words "$1" | awk -v page="$1" '
		BEGIN { for (i = 1; i < ARGC; i++) wanted[ARGV[i]]; ARGC = 1 }
		{ text = text "\n" $0 }
		function stands(word, from, at) {
			while (at = index(substr(text, from), word)) {
				from += at
				if (substr(text, from - 2, 1) !~ /[A-Za-z0-9_-]/ && substr(text, from - 1 + length(word), 1) !~ /[A-Za-z0-9_-]/)
					return 1
			}
			return 0
		}
		END { text = text "\n"; for (word in wanted) if (!stands(word, 1)) print page ": " word }' "${@:2}"
}

# Print the long options in a program's --help.
options_of() {
	"$@" --help | grep -oE -- '--[a-z][a-z0-9-]+' | sort -u
}

verbs() {
	sed -n 's/^#define VERBS/&/; /^#define VERBS/,/^$/s/^\tX(\([a-z_]*\),.*/\1/p' "$ROOT/tools/cli/verbs.h"
}

@test "mandoc and groff find nothing to say of any page" {
	needs mandoc
	needs man
	# scdoc writes these macros; the warning is harmless.
	equal "$(mandoc -T lint -W warning "$MAN"/*.[13578] | grep -v 'skipping paragraph macro: PP')" ""
	equal "$(MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l "$MAN"/*.[13578] 2>&1 >/dev/null)" ""
}

@test "each page says what it is, which version, and no word is left to replace" {
	version=$(gpushare --version | sed 's/.* //')
	equal "$(awk -v version="$version" '
		FNR == 1 { page = FILENAME; sub(/.*\//, "", page); name = title = page; sub(/\.[^.]*$/, "", name); sub(/.*\./, "", title) }
		/^\.TH / { headed[page] = index($0, "gpushare " version); gsub(/"/, ""); titled[page] = index($0, ".TH " name " " title " ") }
		named { gsub(/\\&|\\/, ""); if (index($0, name " - ")) told[page] = 1; named-- }
		/^\.SH NAME/ { named = 2 }
		/@[A-Z_]+@/ { print page ": " $0 }
		{ seen[page] }
		END { for (page in seen) if (!headed[page] || !titled[page] || !told[page]) print page }' "$MAN"/*.[13578])" ""
}

@test "what a page refers to is there" {
	for page in "$MAN"/*.[13578]; do
		others=$(sed 's/\\f[A-Z]//g; s/\\-/-/g; s/^\.BR \([^ ]*\) (\([0-9]\)).*/\1(\2)/' "$page" |
			grep -oE '\bgpushare[a-z_.-]*\([13578]\)' | sed 's/(\([0-9]\))/.\1/' | sort -u)
		[ -n "$others" ]
		for other in $others; do
			[ -e "$MAN/$other" ] || { echo "${page##*/}: $other"; false; }
		done
	done
}

@test "gpushare(1) has a section for each verb, and every option of it" {
	mapfile -t verbs < <(verbs)
	has " ${verbs[*]} " " run "
	lacking=
	for verb in "${verbs[@]}"; do
		grep -q "^\.SH ${verb^^}\$" "$MAN/gpushare.1" || lacking+=" section:$verb"
		mapfile -t options < <(options_of gpushare "$verb")
		lacking+=$(missing gpushare.1 "${options[@]}")
	done
	equal "$lacking" ""
}

@test "gpushare(1) says what options do without being given, and writes words to type as they are typed" {
	local page
	page=$(man -l "$BUILD/man/gpushare.1" 2>/dev/null | tr -s ' \n' ' ')
	has "$page" "raw, hex, npy (NumPy's file)"
	has "$page" "default: NAME"
	has "$page" "ls omits them by default"
	has "$page" "End after N lines (watch)"
}

@test "gpushare-attach(1) and gpushare-registry(8) have every option" {
	mapfile -t options < <(options_of gpushare-attach)
	has "${options[*]}" --into
	equal "$(missing gpushare-attach.1 "${options[@]}")" ""
	mapfile -t options < <(options_of gpushare-registry)
	has "${options[*]}" --keep-limit
	equal "$(missing gpushare-registry.8 "${options[@]}")" ""
}

@test "registry.conf(5) and the example have every key, with what holds without it" {
	mapfile -t keys < <(gpushare-registry --check-config --config "$BUILD/registry.conf" | sed 's/ = .*//')
	has "${keys[*]}" user_connections
	equal "$(missing registry.conf.5 "${keys[@]}")" ""
	sed 's/^#\([a-z_]* = \)/\1/' "$BUILD/registry.conf" >"$WORK/all.conf"
	equal "$(grep -c '^[a-z]' "$WORK/all.conf")" "${#keys[@]}"
	equal "$(gpushare-registry --check-config --config "$WORK/all.conf")" \
		"$(gpushare-registry --check-config --config "$BUILD/registry.conf")"
}

@test "every environment variable that is asked for is in the one list, and in the manual" {
	asked=$({
		grep -rhoE '"GPUSHARE_[A-Z_]+"' "$ROOT"/{shim,registry,tools} --include='*.c'
		grep -rhoE 'environ\.get\("GPUSHARE_[A-Z_]+"' "$ROOT/tools/python" --include='*.py'
	} | grep -oE 'GPUSHARE_[A-Z_]+' | sort -u)
	listed=$(sed -n 's/^\tX(\(GPUSHARE_[A-Z_]*\),.*/\1/p' "$ROOT/tools/common/environment.h")
	has "$listed" GPUSHARE_NAME
	equal "$(sort <<<"$listed")" "$asked"
	mapfile -t listed <<<"$listed"
	equal "$(missing gpushare.7 "${listed[@]}")" ""
	equal "$(missing gpushare.1 "${listed[@]}")" ""
}

@test "gpushare(7) has every option of a rule" {
	mapfile -t options < <(sed -n 's/^\tX(\(ANYWHERE\|ATTACHING\|NAMING\|KEEPING\), \([a-z_]*\),.*/\2/p' "$ROOT"/shim/preload/rules_options.c)
	has "${options[*]}" readonly
	equal "$(missing gpushare.7 "${options[@]}")" ""
	mapfile -t apis < <(sed -n 's/^\tA(\([A-Za-z0-9]*\),.*/\1/p' "$ROOT/shim/preload/rules.h")
	has "${apis[*]}" cuMemAlloc
	equal "$(missing gpushare.7 "${apis[@]}")" ""
}

@test "a kernel that stores into read-only memory: both pages that offer it say what comes of that" {
	for page in gpushare.7 gpushare_alloc_with.3; do
		text=$(words "$page" | tr -s ' \n' ' ')
		has "$text" "CUDA_ERROR_ILLEGAL_ADDRESS"
		has "$text" "nobody else's"
	done
}

@test "each call has a page with its prototype and what its comment says; each status has a line" {
	needs nm
	mapfile -t calls < <(nm -D --defined-only "$BUILD/libgpushare.so.0" | sed -n 's/.* T \(gpushare_[a-z_]*\)@.*/\1/p')
	[ ${#calls[@]} -gt 40 ]
	for call in "${calls[@]}"; do
		has "$(words "$call.3")" "$call("
	done
	pages=("${calls[@]/%/.3}")
	equal "$(grep -L '^\.SH DESCRIPTION' "${pages[@]/#/$MAN/}" 2>&1)" ""
	equal "$(missing gpushare.h.3 "${calls[@]}")" ""
	mapfile -t statuses < <(sed -n 's/^\tX(\(E_[A-Z_]*\), -.*/GPUSHARE_\1/p' "$ROOT/include/gpushare.h")
	has "${statuses[*]}" GPUSHARE_E_NOT_FOUND
	equal "$(missing gpushare.h.3 "${statuses[@]}")" ""
	has "$(words gpushare_attach.3)" "GPUSHARE_E_TIMED_OUT, GPUSHARE_E_DENIED"
}
