# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced. Makes a root directory with only Debian's essential packages and their dependencies. The files are
# copied from this machine, without network access. The root's dpkg database lists those packages.

# Print the essential packages and, recursively, their dependencies, by the names that dpkg lists.
clean_root_packages() {
	dpkg-query -W -f '${db:Status-Abbrev} ${Architecture}\t${Essential}\t${binary:Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n' |
		awk -F '\t' -v "own=$(dpkg --print-architecture)" '
		function bare(name) { gsub(/ *\([^)]*\)/, "", name); sub(/:(any|amd64|arm64)$/, "", name); gsub(/ /, "", name); return name }
		$1 ~ "^ii *(all|" own ")$" {
			short = bare($3); full[short] = $3; needs[short] = $5
			count = split($4, provided, ",")
			for (i = 1; i <= count; i++) by[bare(provided[i])] = short
			if ($2 == "yes") todo[++last] = short
		}
		END {
			for (at = 1; at <= last; at++) {
				if (seen[todo[at]]++) continue
				print full[todo[at]]
				count = split(needs[todo[at]], groups, ",")
				for (i = 1; i <= count; i++) {
					ways = split(groups[i], way, "|")
					for (j = 1; j <= ways; j++) {
						name = bare(way[j])
						if (!(name in full)) name = by[name]
						if (name in full) { todo[++last] = name; break }
					}
				}
			}
		}'
}

# clean_root_make ROOT: copy the packages' files to ROOT and write ROOT's dpkg database
clean_root_make() {
	local root=$1 packages link
	mapfile -t packages < <(clean_root_packages)
	[ ${#packages[@]} -gt 10 ] || return 1
	mkdir -p "$root"/{etc,root,usr/{bin,lib,sbin},var/lib/dpkg/{info,updates,triggers},var/log,proc,dev,sys} || return 1
	mkdir -m 1777 "$root/tmp"
	for link in bin lib lib32 lib64 libx32 sbin; do
		[ ! -L "/$link" ] || { mkdir -p "$root/usr/$link" && ln -s "usr/$link" "$root/$link"; } || return 1
	done
	# Leave out manuals and translations: they are large and no test reads them.
	dpkg-query -L "${packages[@]}" | grep -vE '^/usr/share/(doc|man|info|locale|i18n|perl|zoneinfo|lintian|bug)/|^/\.$|^$|:$' |
		sort -u | while read -r file; do
		[ -d "$file" ] && [ ! -L "$file" ] || [ ! -e "$file" ] || printf '%s\0' "${file#/}"
	done | tar -C / --null -T - --no-recursion -cf - 2>/dev/null |
		tar -C "$root" --no-same-owner --keep-directory-symlink -xf - || return 1
	dpkg-query -s "${packages[@]}" >"$root/var/lib/dpkg/status" || return 1
	: >"$root/var/lib/dpkg/available"
	cp /var/lib/dpkg/info/format "$root/var/lib/dpkg/info/"
	for package in "${packages[@]}"; do
		cp /var/lib/dpkg/info/"$package".* "$root/var/lib/dpkg/info/" 2>/dev/null || true
	done
	printf 'root:x:0:0:root:/root:/bin/bash\n' >"$root/etc/passwd"
	printf 'root:x:0:\n' >"$root/etc/group"
	ldconfig -r "$root"
}

# clean_root_way: set WAY to the unshare command with which this process can enter a clean root, or WHY to the
# reason that it can't
clean_root_way() {
	local way
	# shellcheck disable=SC2034 # for the caller
	WHY="neither root nor user namespaces here"
	for way in "unshare --mount --pid --fork --kill-child" "unshare --map-root-user --mount --pid --fork --kill-child"; do
		read -ra WAY <<<"$way"
		# shellcheck disable=SC2016
		if "${WAY[@]}" sh -c 'mount -t tmpfs none /mnt && mkdir /mnt/proc && mount -t proc proc /mnt/proc && chroot / true' 2>/dev/null; then
			return 0
		fi
	done
	return 1
}

# clean_root_run ROOT COMMAND...: run COMMAND in ROOT with /proc and /dev mounted and a clean environment
clean_root_run() {
	local root=$1
	# shellcheck disable=SC2016 # the inner shell's
	"${WAY[@]}" sh -c 'root=$1 && shift && mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"' \
		- "$@" </dev/null
}
