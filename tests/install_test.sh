#!/usr/bin/env bash
# Installs into an empty prefix, and builds and runs the example of the README against it with find_package(hastings).
set -eu
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
mkdir "$work/consumer"
awk '/^```cpp$/ {on = 1; next} /^```$/ {on = 0} on' "$source/README.md" >"$work/consumer/main.cpp"
[ -s "$work/consumer/main.cpp" ] || { echo "README.md has no C++ example"; exit 1; }
cat >"$work/consumer/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(consumer CXX)
find_package(hastings REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer PRIVATE hastings::hastings)
C
cmake -S "$work/consumer" -B "$work/consumer/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/consumer/build" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/consumer/build/consumer"
"$work/prefix/bin/hastings" --version
