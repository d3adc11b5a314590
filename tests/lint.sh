#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The lints: each is one test. A lint whose tool is not installed is skipped by name.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0

# lint TOOL TITLE COMMAND...: one test; skipped without the tool
lint() {
	local tool=$1 output
	shift
	if ! command -v "$tool" >/dev/null 2>&1; then
		echo "skipped: lint: $1: $tool is not installed"
		skipped=$((skipped + 1))
	elif output=$("${@:2}" 2>&1); then
		echo "lint: $1"
		passed=$((passed + 1))
	else
		echo "FAILED: lint: $1"
		head -n 60 <<<"$output" | sed 's/^/    /'
		failed=$((failed + 1))
	fi
}

spdx() {
	local file bad=0
	while read -r file; do
		head -n 3 "$file" | grep -q 'SPDX-License-Identifier: MIT' || { echo "$file: no SPDX line" && bad=1; }
	done < <(find Makefile .ci include registry shim tools tests -type f \
		! -name '*.md' ! -name '*.json' ! -name '__pycache__' ! -name '*.pyc' ! -path '*/corpus/*')
	return $bad
}

# Versions of the formatter differ; CI has version 14.
formatted() {
	[[ $(clang-format --version) =~ version\ 14\. ]] || echo "this is $(clang-format --version), not 14"
	git ls-files -z '*.c' '*.h' '*.cu' | xargs -0 clang-format --dry-run -Werror || return 1
	# It leaves comments as they are, and what it is told to.
	git ls-files -z '*.c' '*.h' '*.cu' '*.cpp' '*.hpp' | xargs -0 expand |
		awk 'length > 100 { print "a line of C over 100 columns: " $0; bad = 1 } END { exit bad }'
}

mapfile -t scripts < <(grep -lE '^#!.*(ba|env )?sh' -r .ci tests tools -I 2>/dev/null)
# Checks in which cppcheck misreads the expansions of uthash and X-macros, the cleanup attribute, or calls by pointer.
misread=(normalCheckLevelMaxBranches returnDanglingLifetime uninitvar incorrectStringBooleanError memleak)
mapfile -t suppressed < <(printf -- '--suppress=%s\n' missingIncludeSystem "${misread[@]}")
mapfile -t sources < <(find registry shim tools -name '*.c' ! -name 'cuda_abi_*')
lint shellcheck "shell scripts" shellcheck -x --severity=warning "${scripts[@]}"
lint bash "an SPDX line in every file" spdx
mapfile -t test_scripts < <(git ls-files '*.bats' '*.bash')
lint python3 "no check in a test whose failure bash ignores" python3 tests/lint_bats.py "${test_scripts[@]}"
mapfile -t includers < <(git ls-files '*.c' '*.h')
lint python3 "who includes whom" python3 tests/lint_layers.py "${includers[@]}"
mapfile -t pages < <(git ls-files '*.md')
lint python3 "links, lengths and tables of the documents" python3 tests/lint_docs.py "${pages[@]}"
lint python3 "the picture is what its script draws" python3 docs/picture/picture.py --check
# -I: words that are right here: names of tests' arguments, and misspelt names that tests use
mapfile -t words < <(git ls-files ':!*.svg' ':!*/corpus/*' ':!tests/codespell.txt')
lint codespell "the spelling" codespell -I tests/codespell.txt "${words[@]}"
if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
	lint python3 "the compose file and the Kubernetes manifest" /usr/bin/python3 tests/lint_containers.py
else
	echo "skipped: lint: the compose file and the Kubernetes manifest: python3-yaml is not installed"
	skipped=$((skipped + 1))
fi
# tests/deps.sh --lint installs these.
checkers=${HOME:-/tmp}/.cache/gpushare-lint/bin
lint "$checkers/check-jsonschema" "the compose file against its schema" \
	"$checkers/check-jsonschema" --builtin-schema vendor.compose-spec docs/containers/compose.yaml
lint "$checkers/kubernetes-validate" "the Kubernetes manifest against its schema" \
	"$checkers/kubernetes-validate" --strict docs/containers/kubernetes.yaml
lint "$checkers/check-jsonschema" "the Grafana dashboard against a schema" \
	"$checkers/check-jsonschema" --schemafile tests/grafana.schema.json tools/packages/grafana.json
lint clang-format "every C file is as clang-format makes it" formatted
lint cppcheck "cppcheck of registry, shim, tools" cppcheck --quiet --std=c11 --enable=warning,portability \
	--inline-suppr "${suppressed[@]}" \
	--error-exitcode=1 -j2 -Iinclude -Iregistry/protocol -Iregistry -Ishim -Itools "-I${BUILD:-build}/gen" \
	-D_GNU_SOURCE -D__x86_64__ -DPB_PROTO_HEADER_VERSION=40 '-DElfW(type)=Elf64_##type' "${sources[@]}"
# .clang-tidy lists the checks. As with the formatter, the reports differ with the version.
tidy() {
	[[ $(clang-tidy --version) =~ version\ 14\. ]] || echo "this is $(clang-tidy --version | grep version), not 14"
	printf '%s\0' "${sources[@]}" | xargs -0 -n 6 -P "$(nproc)" sh -c 'exec clang-tidy --quiet "$@" -- -std=gnu11 \
		-D_GNU_SOURCE -Iinclude -iquote registry/protocol -iquote shim -iquote tools -iquote "${BUILD:-build}/gen" -idirafter registry 2>&1' tidy
}
if [ -e "${BUILD:-build}/gen/registry.pb.h" ]; then
	lint clang-tidy "clang-tidy of registry, shim, tools" tidy
	lint clang "scan-build's analyzer of registry, shim, tools, within bounds (make analyze: without)" \
		tests/analyze/run.sh --within 40000
else
	echo "skipped: lint: clang-tidy and analyzer of registry, shim, tools: nothing is built in ${BUILD:-build}: make first"
	skipped=$((skipped + 2))
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
