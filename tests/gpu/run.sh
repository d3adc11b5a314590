#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs everything that needs a GPU: tests/gpu/run.sh [OUT_DIR [PART...]] writes OUT_DIR/RESULTS.md.
#   job       the main job, with kernels and with frameworks    tests [FILTER...]  contract, end-to-end
#   measure   what the shim costs, and its targets
#   attach    the cost of attaching, naming and attaching again
#   host      the cost of the CPU's own loads and stores
#   python    the Python package under frameworks
#   recipes   README.md's recipes
#   order     publish and acquire between processes
#   matrix    programs bare, preloaded, all named, all mapped
#   bench     the preload's cost; the registry beside other servers
# Without a PART it runs all parts, the long ones last, so that a run that is cut short has the figures.
# GPUSHARE_GPU_APPEND=1 adds to OUT_DIR/RESULTS.md, for another visit to the same machine.
# GPUSHARE_BUNDLE_SIM=1 runs the script on the simulated driver, to try the script itself.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=$(cd "$root" && cd "${BUILD:-build}" && pwd) || exit 1
export BUILD
bin=$BUILD/tests/bin
parts=("${@:2}") FILTERS=()
[ ${#parts[@]} != 0 ] || parts=(job measure attach host python recipes order bench matrix tests)
for ((i = 0; i < ${#parts[@]}; i++)); do
	if [ ! -f "$root/tests/gpu/part_${parts[i]}.bash" ]; then
		echo "gpushare: no part ${parts[i]}; they are: job measure attach host python recipes order bench matrix tests" >&2
		exit 2
	fi
	[ "${parts[i]}" = tests ] || continue
	# shellcheck disable=SC2034 # for part_tests.bash
	FILTERS=("${parts[@]:i+1}") parts=("${parts[@]:0:i+1}")
done
mkdir -p "${1:-.}" || exit 1
out=$(cd "${1:-.}" && pwd)
results=$out/RESULTS.md
scratch=$(mktemp -d /tmp/gpushare-gpu.XXXXXX)
shm=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo /tmp)/gpushare-gpu.XXXXXX")
export GPUSHARE_DIR=$scratch/registry

# In containers the driver's Vulkan manifest lies beside the driver's libraries, where the Vulkan loader does not look.
find_vulkan() {
	local library file
	[ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || return 0
	! compgen -G '/etc/vulkan/icd.d/nvidia*' && ! compgen -G '/usr/share/vulkan/icd.d/nvidia*' || return 0
	library=$(ldd "$bin/drv_linked" | awk '$1 == "libcuda.so.1" { print $3 }')
	for file in {"$(dirname "$library")/..",/usr/local/nvidia}/share/vulkan/icd.d/nvidia*.json; do
		[ ! -e "$file" ] || export VK_DRIVER_FILES=$file
	done
} >/dev/null
unset GPUSHARE_NAME GPUSHARE_ATTACH GPUSHARE_TIMEOUT_MS GPUSHARE_AUTOSTART LD_PRELOAD
# shellcheck source=tests/gpu/stage.bash
. "$root/tests/gpu/stage.bash"
trap finish EXIT

if [ "${GPUSHARE_BUNDLE_SIM:-}" = 1 ]; then
	driver=$(GPUSHARE_TEST_GPU=no "$root/tests/run" --driver)
	export LD_LIBRARY_PATH=$BUILD/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} GPUSHARE_TEST_GPU=no
else
	export GPUSHARE_TEST_GPU=must
	if ! driver=$("$bin/probe"); then
		echo "gpushare: a GPU is needed here, and there is none: $driver" >&2
		exit 1
	fi
	driver="running on $driver"
	find_vulkan
fi
echo "$driver"
# A run may take several visits to one machine: GPUSHARE_GPU_APPEND=1 adds to what OUT_DIR has.
[ "${GPUSHARE_GPU_APPEND:-}" = 1 ] || rm -f "$results"
[ -s "$results" ] || {
	echo "# Measured results"
	echo
	echo "Written by \`tests/gpu/run.sh\` on $(date -u '+%Y-%m-%d %H:%M UTC'), $driver;"
	echo "$(nproc) CPUs ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)), Linux $(uname -r)," \
		"glibc $(getconf GNU_LIBC_VERSION | cut -d' ' -f2), gpushare $("$BUILD/gpushare" --version | awk '{ print $NF }')."
} >"$results"

for part in "${parts[@]}"; do
	# shellcheck source=/dev/null
	. "$root/tests/gpu/part_$part.bash"
done

echo "results are in $results"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
