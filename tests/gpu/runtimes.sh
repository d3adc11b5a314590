#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Brings the older CUDA runtimes that the matrix runs programs with, and their licence, to
# $BUILD/tests/lib: from the packages that NVIDIA publishes. Without them those rows are skipped.
set -u
BUILD=$(mkdir -p "${BUILD:-build}/tests/lib" && cd "${BUILD:-build}" && pwd) || exit 1
lib=$BUILD/tests/lib

# bring PACKAGE VERSION FILE: download the package and keep this file of it, with its licence
bring() {
	local scratch wheel
	[ ! -f "$lib/$3" ] || return 0
	scratch=$(mktemp -d) || return 1
	if python3 -m pip download -q --no-deps --disable-pip-version-check -d "$scratch" "$1==$2" >/dev/null 2>&1; then
		wheel=$(find "$scratch" -name '*.whl')
		python3 -m zipfile -e "$wheel" "$scratch/x" &&
			cp "$scratch/x/nvidia/cuda_runtime/lib/$3" "$scratch/$3" &&
			find "$scratch/x" -name 'License.txt' -exec cp {} "$lib/$3.License.txt" \; &&
			mv "$scratch/$3" "$lib/$3"
	fi
	rm -rf "$scratch"
	if [ ! -f "$lib/$3" ]; then
		echo "skipped: $3: the package $1 $2 could not be had"
	fi
}
bring nvidia-cuda-runtime-cu11 11.8.89 libcudart.so.11.0
bring nvidia-cuda-runtime-cu12 12.9.79 libcudart.so.12
