#!/bin/sh
# install.sh PREFIX LIBRARY: puts the headers, the library, and what pkg-config and CMake need under PREFIX.
# LIBDIR is where the library goes: a folder under PREFIX ("lib" where it is not set), or an absolute one. DESTDIR goes in front of
# everything that is written, and is named nowhere.
# There is no static archive: docs/embedding.md says why.
# Everything finds its neighbours by relative paths, so the whole tree may be moved.
set -eu
prefix=$1
library=$2
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
abi=$(sed -n 's/^#define TORCHACC_ABI //p' "$root/include/torchacc.h")
case ${LIBDIR:=lib} in
    /*) libdir=$LIBDIR ;;
    *) libdir=$prefix/$LIBDIR ;;
esac
to_prefix=$(realpath --canonicalize-missing --relative-to="$libdir" "$prefix")
include=${DESTDIR:-}$prefix/include
lib=${DESTDIR:-}$libdir

install -d "$include" "$lib/pkgconfig" "$lib/cmake/torchacc"
install -m 644 "$root/include/torchacc.h" "$root/include/torchacc.hpp" "$include"
install -m 755 "$library" "$lib/libtorchacc.so.$abi.$version"
ln -sf "libtorchacc.so.$abi.$version" "$lib/libtorchacc.so.$abi"
ln -sf "libtorchacc.so.$abi" "$lib/libtorchacc.so"
fill() {
    sed -e "s|@VERSION@|$version|g" -e "s|@ABI@|$abi|g" -e "s|@TO_PREFIX@|$to_prefix|g" "$root/packaging/$1" > "$2/$1"
}
fill torchacc.pc "$lib/pkgconfig"
fill torchacc-config.cmake "$lib/cmake/torchacc"
fill torchacc-config-version.cmake "$lib/cmake/torchacc"
