# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash in which a tool's own calls fail. The API's code is linked into the tool.

# The registry claims to have done what it has not: the tool believes it.
is_lie() {
	[[ $1 =~ ^ask\.(6|20|22)@.*=ok$ ]]
}

# Replace numbers and column widths, which differ from run to run. The registry also counts what other runs broke.
numberless() {
	sed -E '/^gpushare_refusals_total.status="E_PROTOCOL"/d; s/[0-9]+/N/g; s/ +/ /g' "$1"
}

# If one of these calls fails, the tool may leave out what the call tells.
is_decoration() {
	[[ $1 =~ ^(getpwuid|getgrgid|localtime_r|sched_getaffinity)@ ]]
}

# tool PROGRAM WORD...: the tool must leave a whole file, or no file and a message. before() and after() run around
# each run, without a fault; after() prints the result.
tool() {
	OF=$1
	WORDS=("${@:2}")
	with_a_registry
	SERVER=("$BIN/api_faults" serve)
	before() {
		:
	}
	after() {
		[ ! -e files/dump ] || sha256sum <files/dump
	}
	scene() {
		local code=0
		rm -rf "$WORK/files"
		mkdir "$WORK/files"
		(
			cd "$WORK" || exit 1
			before
			LD_PRELOAD=$FAULT_LIB guarded "${WORDS[@]}" || code=$?
			unset FAULT_AT FAULT_HIT FAULT_LEFT FAULT_RECORD
			after
			exit $code
		)
	}
	judge() {
		[ "$1" ] || cp "$WORK/out" "$WORK/plain"
		case $code in
		0)
			cmp -s <(numberless "$WORK/out") <(numberless "$WORK/plain") || is_decoration "$1" || is_lie "$1" || [ "${SAYS_WHAT_FAILS:-}" ] || [[ $1 =~ ${ALL_THE_SAME:-^$} ]] || {
				echo "success, and another output"
				diff <(numberless "$WORK/plain") <(numberless "$WORK/out")
				return 1
			}
			;;
		"${TROUBLE:-1}")
			[ -s "$WORK/err" ] || [ "${SAYS_WHAT_FAILS:-}" ] || { echo "it failed without a sentence"; return 1; }
			[ -z "$(ls -A "$WORK/files")" ] || cmp -s "$WORK/out" "$WORK/plain" || { echo "files are left: $(ls "$WORK/files")"; return 1; }
			;;
		*) [[ $1 =~ ${DIFFERS:-^$} ]] || { echo "exit code $code"; return 1; } ;;
		esac
	}
	# a tool exits at once and releases nothing itself, so only the registry is checked
	nothing_left() {
		registry_is_as_before
	}
}

attach_tool() {
	tool gpushare-attach "$BUILD/gpushare-attach" "$@"
}

verb() {
	tool gpushare "$BUILD/gpushare" "$@"
}

scene_dump() { attach_tool other -o files/dump; }
scene_dump_vmm() { attach_tool othervmm -o files/dump; }
scene_dump_npy() { attach_tool other --format npy --dtype f16 -o files/dump; }
scene_dump_stats() { attach_tool other --stats --sha256 --dtype f16; }
scene_dump_text() { attach_tool other --format f32 --head 8; }
scene_ls() { verb ls 'other*'; }
scene_ls_json() { verb ls --json; }
scene_stat() { verb stat othervmm; }
scene_stat_registry() { verb stat; }
scene_events() { verb events; }
scene_deferred_list() { verb ls --deferred; }
scene_metrics() { verb metrics; }

scene_top() {
	verb top -n 1
	ALL_THE_SAME='^dlopen@' # without NVML, the GPU's memory is left out
}

scene_doctor() {
	verb doctor
	SAYS_WHAT_FAILS=1
}

scene_registry_status() {
	verb registry status
	SAYS_WHAT_FAILS=1
}

scene_dump_set() {
	attach_tool 'other*' -o files/set/
	after() {
		[ ! -e files/set ] || (cd files/set && sha256sum other*)
	}
}

scene_diff() {
	attach_tool other --diff same
	TROUBLE=2
	before() {
		[ -e same ] || "$BUILD/gpushare-attach" other -o same
	}
}

# If the tool reports success, the buffer must have the new contents.
scene_put() {
	verb put new.bytes othervmm --offset 5
	before() {
		[ -e whole ] || "$BUILD/gpushare-attach" othervmm -o whole
		"$BUILD/gpushare-attach" othervmm --into whole
		printf 'what was put there' >new.bytes
	}
	after() {
		"$BUILD/gpushare-attach" othervmm --sha256
	}
}

scene_get() {
	verb get other -o files/dump
}

scene_tag() {
	verb tag other step=many
	before() {
		"$BUILD/gpushare" tag other -step >/dev/null
	}
	after() {
		"$BUILD/gpushare" tag other
	}
}

scene_diff_set() {
	attach_tool --diff set
	TROUBLE=2
	DIFFERS='^ask\.3@.*=s3$' # a buffer has gone
	before() {
		[ -e set ] || "$BUILD/gpushare-attach" other othervmm -o set
	}
	after() {
		:
	}
}

scene_restore() {
	attach_tool --restore some.bin kept
	before() {
		[ -e some.bin ] || head -c 100000 /dev/zero >some.bin
		"$BUILD/gpushare" rm kept >/dev/null 2>&1
	}
	after() {
		"$BUILD/gpushare" ls kept
	}
	forgets kept
}

scene_rm() {
	verb rm kept
	before() {
		[ -e some.bin ] || head -c 100000 /dev/zero >some.bin
		"$BUILD/gpushare" rm kept >/dev/null 2>&1
		"$BUILD/gpushare-attach" --restore some.bin kept >/dev/null
	}
	after() {
		"$BUILD/gpushare" ls kept
	}
	forgets kept
}

# Attach a buffer whose owner publishes.
followed() {
	attach_tool "$@"
	ALL_THE_SAME='^fds\.1@.*=s(3|17)$' # that its owner or the buffer is gone is how it ends
	SERVER=("$BIN/api_faults" publish)
	NAMES_VARY=some
}

scene_follow() { followed other --follow --count 2 --timeout 3 -o files/dump; }
scene_wait_for() { followed other --wait-for 3 --timeout 3 --sha256; }

scene_watch() {
	verb watch --count 1 seen
	SERVER=("$BIN/api_faults" publish)
	NAMES_VARY=some
	SAYS_WHAT_FAILS=1 # which of the notices is the first
}

# The tool executes the program, which must behave as without the preload.
scene_run() {
	verb run --name w%i -- "$BIN/drv_linked" init make=a,alloc,700Ki fill=a,3 byte=a,4 drop=a exit=7
	judge() {
		[ "$1" ] || cp "$WORK/out" "$WORK/plain"
		case $code in
		7) cmp "$WORK/out" "$WORK/plain" || return 1 ;;
		1 | 2 | 126 | 127) [ -s "$WORK/err" ] || { echo "it failed without a sentence"; return 1; } ;;
		*) echo "exit code $code"; return 1 ;;
		esac
	}
	AT_LEAST=3
}
