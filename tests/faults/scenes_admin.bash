# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# The scenes of each.bash about an administrator's settings: the daemon with a registry.conf, an audit, limits that are
# reached, or for all users. Each scene fails only the calls in the files that it is about.

# in_files REGEX: from a list of call sites, keep those in files that match, and those inlined from such files
in_files() {
	local site
	in_our_functions | sort -u >"$WORK/sites.all"
	sed 's/.*+/0x/' "$WORK/sites.all" | xargs addr2line -fpi -e "$BUILD/gpushare-registry" |
		awk -v want="$1" '/^ \(inlined by\)/ { if ($0 ~ want) hit[n] = 1; next } { n++; if ($0 ~ want) hit[n] = 1 }
			END { for (i in hit) print i }' >"$WORK/sites.hit"
	awk 'NR == FNR { hit[$1] = 1; next } hit[FNR]' "$WORK/sites.hit" "$WORK/sites.all"
}

# set_up FILES LINE...: the daemon's scene with these lines as registry.conf, and only the call sites in FILES
set_up() {
	local files=$1
	shift
	CONF=("$@")
	FILES=$files
	registry
	AT_LEAST=5
	LIMIT_MS=15000
	sites_filter() {
		in_files "$FILES" | grep -v '^\(ask\|fds\)\.'
	}
	scene() {
		: >"$WORK/daemon.err" && : >"$WORK/clients.err"
		printf '%s\n' "${CONF[@]}" >"$WORK/registry.conf"
		chmod 644 "$WORK/registry.conf"
		FAULT_PLAYED=$FAULT_AT
		daemon "$FAULT_LIB" "$FAULT_AT" --config "$WORK/registry.conf" "${MORE[@]}"
		daemon_is_up
		unset FAULT_AT FAULT_RECORD FAULT_LEFT FAULT_HIT
		meets
		ends_with
		cat "$WORK/daemon.err" "$WORK/clients.err" >&2
	}
	meets() {
		with_a_server
		client ipc other
		program GPUSHARE_NAME=w%i
		program GPUSHARE_NAME=k:keep
	}
	MORE=()
}

# The daemon refuses a tag too many. If it could not start, the registry that a client starts has no such limit.
scene_limits() {
	set_up '/(config|users|options)\.c' 'user_tags = 2 # each' 'names = 5' '' 'silent_s = 7'
	meets() {
		with_a_server
		client ipc other
		program GPUSHARE_NAME=w%i
		program GPUSHARE_NAME=k:keep
		if kill -0 "$REGISTRY" 2>/dev/null && "$BUILD/gpushare" tag other a=1 b=2 c=3 2>>"$WORK/clients.err"; then
			echo "wrong: more tags than may be"
		fi
	}
}

# SIGHUP makes the daemon reopen the audit file. Each line must be whole, except one: a fault may cut off the last line
# before it.
audited() {
	kill -HUP "$REGISTRY" 2>/dev/null
	client ipc other
	"$BUILD/gpushare" rm k >/dev/null 2>&1
	[ ! -e "$GPUSHARE_DIR/audit.log" ] ||
		grep -vE '^[0-9T:.-]+Z [a-z_]+ uid=[0-9]+ .*(outcome=[a-zA-Z_]+|why=".*"|count=[0-9]+)$' "$GPUSHARE_DIR/audit.log" |
		sed -n '2,$s/^/wrong: an audit line: /p'
}

scene_audit() {
	set_up '/(audit|users)\.c' 'audit = audit.log' 'audit_rate = 3'
	meets() {
		with_a_server
		program GPUSHARE_NAME=w%i
		program GPUSHARE_NAME=k:keep
		audited
	}
}

# The audit goes to the service manager's journal; only the daemon sees a stand-in for it.
scene_audit_journal() {
	set_up '/(audit|users)\.c' 'audit = journal'
	"$BIN/app_journal" 2>/dev/null || CANT="root puts a journal of its own before the daemon"
	daemon() {
		rm -f "$WORK/journal"
		LD_PRELOAD=$1 FAULT_AT=$2 "$BIN/app_journal" "$WORK/journal" "$BUILD/gpushare-registry" --foreground \
			--idle-exit 0 --dir "$GPUSHARE_DIR" "${@:3}" </dev/null >/dev/null 2>>"$WORK/daemon.err" &
		REGISTRY=$!
	}
	meets() {
		with_a_server
		program GPUSHARE_NAME=w%i
		program GPUSHARE_NAME=k:keep
		audited
		[ "$FAULT_PLAYED" ] || grep -q '^GPUSHARE_' "$WORK/journal" || echo "wrong: nothing in the journal"
	}
}

# Three users of one registry: an owner, a member of the owner's group, and another user.
OWNER=41001 MEMBER=41002 OTHER=65534 TEAM=41500
as() {
	local groups=(--clear-groups)
	[ "$1" = "$OTHER" ] || groups=(--groups "$TEAM")
	setpriv --reuid "$1" --regid "$1" "${groups[@]}" --inh-caps=-all timeout -k 2 15 "${@:2}"
}

# These users run copies, because they may have no access to the build folder.
copies() {
	if [ ! -e "$TOP/sys" ]; then
		mkdir "$TOP/sys"
		cp -r "$BUILD/sim" "$BUILD"/gpushare{,-attach} "$BUILD"/libgpushare*.so* "$BIN/drv_linked" "$TOP/sys"
	fi
	mkdir -p "$WORK/home"
	chmod a+rX "$TOP" "$WORK" && chmod -R a+rX "$TOP/sys" && chmod 1777 "$WORK/home"
	rmdir "$GPUSHARE_DIR" 2>/dev/null
	export LD_LIBRARY_PATH=$TOP/sys/sim:$TOP/sys
}

# the group's member can attach the buffer to read it; the other user can neither attach nor see it
rights_hold() {
	local seen
	rm -f "$WORK/home"/*
	as "$OWNER" env LD_PRELOAD="$TOP/sys/libgpushare_shim.so" GPUSHARE_NAME="ours:vmm:mode=640:group=$TEAM" "$TOP/sys/drv_linked" init \
		alloc=a,2Mi touch="$WORK/home/up" await="$WORK/home/go" </dev/null >"$WORK/home/owner.out" 2>>"$WORK/clients.err" &
	await "$WORK/home/up"
	seen=$(as "$OTHER" "$TOP/sys/gpushare" ls ours 2>>"$WORK/clients.err")
	[[ $seen != *ours* ]] || echo "wrong: another user sees what is the group's"
	! as "$OTHER" "$TOP/sys/gpushare-attach" ours --sha256 >/dev/null 2>>"$WORK/clients.err" || echo "wrong: another user attaches what is the group's"
	! as "$MEMBER" "$TOP/sys/gpushare" rm ours >/dev/null 2>>"$WORK/clients.err" || echo "wrong: one of the group unlinks it"
	as "$MEMBER" "$TOP/sys/gpushare-attach" ours --sha256 >/dev/null 2>>"$WORK/clients.err"
	echo "member $?"
	: >"$WORK/home/go"
	wait $!
}

scene_system() {
	set_up '/(access|identity|socket_access|instance|config|options|process)\.c' 'user_names = 100'
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || CANT="root and setpriv become other users"
	prepare() {
		copies
	}
	MORE=(--system)
	meets() {
		rights_hold
	}
	judge() {
		local code
		[ -s "$WORK/plain" ] || { cp "$WORK/out" "$WORK/plain"; grep -q '^member 0' "$WORK/out" || { echo "one of the group can't"; return 1; }; }
		code=$(sed -n 's/^daemon //p' "$WORK/out")
		! grep '^wrong' "$WORK/out" || return 1
		case $code in
		0) ;;
		1 | 2) [ -s "$WORK/daemon.err" ] || { echo "it gave up without a word"; return 1; } ;;
		*) echo "the daemon's exit code is $code"; return 1 ;;
		esac
	}
}
