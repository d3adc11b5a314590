#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Packs what a run on another GPU host needs into $BUILD/bundle: started there as `./run [OUT_DIR]`.
# That host needs only an NVIDIA driver, glibc 2.36 or later, bash and the usual tools.
# GPUSHARE_BUNDLE_SIM=1: pack the simulated driver instead of the toolkit's runtime, to try the scripts.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
BUILD=$(mkdir -p "${BUILD:-build}" && cd "${BUILD:-build}" && pwd)
bundle=$BUILD/bundle
limit_mib=40
: "${NVCC:=}" "${CUDA_RT:=}"

runtime=cuda
if [ "${GPUSHARE_BUNDLE_SIM:-}" = 1 ]; then
	runtime=sim
elif [ -z "$NVCC" ] || [ -z "$CUDA_RT" ]; then
	echo "gpushare: make bundle needs nvcc and libcudart_static.a; no CUDA toolkit was found in CUDA_HOME, /usr/local/cuda or through nvcc on PATH" >&2
	exit 1
fi
make --no-print-directory "BUILD=$BUILD" RUNTIME=$runtime "${JOBS:--j2}" tests bench-programs

# The library file that program $1 loads under the name $2.
loaded() {
	ldd "$1" | awk -v name="$2" 'index($1, name) == 1 && $2 == "=>" { print $3; exit }'
}

rm -rf "$bundle"
mkdir -p "$bundle"/build/tests/{bin,lib} "$bundle"/{lib,bats/bin,bats/lib,bats/libexec,bin,tests/gpu,tests/demo,shim,include}
for file in libgpushare_shim.so libgpushare.so.0 gpushare-registry gpushare gpushare-attach; do
	cp -P "$BUILD/$file" "$bundle/build/"
done
ln -s libgpushare.so.0 "$bundle/build/libgpushare.so" # what a test links there
find "$BUILD/tests" -maxdepth 1 -name 'contract_*' -type f -exec cp {} "$bundle/build/tests/" \;
find "$BUILD/tests/bin" -maxdepth 1 -type f -exec cp {} "$bundle/build/tests/bin/" \;
cp -r tests/e2e "$bundle/tests/"
# Leave out tests that look at built files or sources with a developer's tools, or that need the simulated driver's
# faults.
rm -rf "$bundle"/tests/e2e/{elf,faults_sim,install,deb,manual,units,coverage}.bats
cp tests/run "$bundle/tests/"
cp -r tests/bench "$bundle/tests/"
cp -r "$BUILD/bench" "$bundle/build/"
cp tests/demo/demo.sh "$bundle/tests/demo/"
cp tests/gpu/run.sh tests/gpu/matrix.sh tests/gpu/*.bash tests/gpu/*.py "$bundle/tests/gpu/"
cp --parents shim/*/*.sym shim/cuda/cuda_abi.h "$bundle/" # a test compiles there, if it can
cp include/gpushare.h "$bundle/include/"
mkdir "$bundle/tools"
cp -r tools/completions "$bundle/tools/"
mkdir -p "$bundle/tools" && cp -r tools/python "$bundle/tools/" && cp -r tests/python "$bundle/tests/"
find "$bundle/tools" "$bundle/tests" -name __pycache__ -prune -exec rm -r {} +
cp LICENSE "$bundle/" # it goes into the wheel
cp "$(command -v bats)" "$bundle/bats/bin/"
cp -r /usr/lib/bats-core "$bundle/bats/lib/"
cp -r /usr/libexec/bats-core "$bundle/bats/libexec/"
cp "$(command -v jq)" "$bundle/bin/"
for name in libjq libonig; do
	cp "$(loaded "$(command -v jq)" $name)" "$bundle/lib/"
done
# Libraries for the tests of the preload order, if they are installed here.
mkdir "$bundle/lib/faketime"
for name in libjemalloc.so.2 faketime/libfaketime.so.1 faketime/libfaketimeMT.so.1; do
	for file in /usr/lib/*-linux-gnu/"$name"; do
		[ ! -e "$file" ] || cp -L "$file" "$bundle/lib/$name"
	done
done
# The Vulkan loader: a driver always brings its own part of Vulkan, but not always the loader.
for file in /usr/lib/*-linux-gnu/libvulkan.so.1; do
	[ ! -e "$file" ] || cp -L "$file" "$bundle/lib/"
done
for contract in "$bundle"/build/tests/contract_*; do
	cp "$(loaded "$contract" libcmocka)" "$bundle/lib/"
	break
done
if [ $runtime = cuda ]; then
	"$root/tests/gpu/runtimes.sh"
	find "$BUILD/tests/lib" -maxdepth 1 -name 'libcudart.so.*' -exec cp {} "$bundle/build/tests/lib/" \;
	cp "$(readlink -f "${CUDA_RT%/*}/libcudart.so")" "$bundle/build/tests/lib/libcudart.so.${CUDART_MAJOR:-13}"
else
	mkdir "$bundle/build/sim"
	cp -r "$BUILD"/sim/{libcuda.so.1,libvulkan.so.1,old,ancient} "$bundle/build/sim/"
	cp "$BUILD"/sim/libcudart.so.1[123]* "$bundle/build/tests/lib/"
fi
# Debug information is a third of it.
find "$bundle/build" -type f \( -perm -u+x -o -name '*.so*' \) -exec strip --strip-debug {} + 2>/dev/null || :
cat >"$bundle/run" <<'RUN'
#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests and measurements on this host's GPU: ./run [OUT_DIR [PART...]], as in tests/gpu/run.sh
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$here/bats/bin:$here/bin:$PATH BUILD=build
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/tests/gpu/run.sh" "${@:-.}" </dev/null
RUN
chmod +x "$bundle/run"
size_mib=$(du -sm "$bundle" | cut -f1)
if [ "$size_mib" -gt $limit_mib ]; then
	echo "gpushare: the bundle has $size_mib MiB; $limit_mib is the limit" >&2
	exit 1
fi
echo "bundle: $bundle, $size_mib MiB"
