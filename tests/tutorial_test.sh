#!/usr/bin/env bash
# Runs the tutorials: the sh blocks of each page, in their order, in an empty folder with `hastings` on the path. In a
# page, "<!-- needs: X -->" before a block (or as the first line, for the page) skips it where X is missing: stan, arviz
# or gnuplot; "<!-- makes: FILES -->" names what the block must leave.
# usage: tutorial_test.sh HASTINGS SOURCE_DIR [PAGE...]; 77 where a whole page was skipped
set -u
hastings=$(readlink -f "$1")
source=$(readlink -f "$2")
shift 2
[ $# -gt 0 ] || set -- statistician gan
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$hastings" "$work/bin/hastings"
export PATH="$work/bin:$PATH"
home="${XDG_DATA_HOME:-$HOME/.local/share}/hastings"
python3 -c 'import arviz' 2>/dev/null || [ ! -x "$home/readers/bin/python" ] || PATH="$home/readers/bin:$PATH"

have() {
  case $1 in
    stan) [ -x "$home/stan/stanc" ] || [ -n "${HASTINGS_STAN:-}" ] ;;
    arviz) python3 -c 'import arviz' 2>/dev/null ;;
    gnuplot) command -v gnuplot >/dev/null ;;
    *) echo "nothing is known of a need for '$1'" >&2; exit 1 ;;
  esac
}

status=0
for page in "$@"; do
  file="$source/docs/tutorials/$page.md"
  [ -s "$file" ] || { echo "FAILED: $file is not there"; exit 1; }
  needs=$(sed -n '1s/^<!-- needs: \(.*\) -->$/\1/p' "$file")
  if [ -n "$needs" ] && ! have "$needs"; then
    echo "$page: $needs is not here: skipped."
    status=77
    continue
  fi
  mkdir -p "$work/$page/blocks" "$work/$page/run"
  # blocks/N holds a block, blocks/N.needs and blocks/N.makes what is said of it.
  awk -v to="$work/$page/blocks/" '
    /^<!-- (needs|makes): .* -->$/ { if (NR > 1) said[$2 == "needs:" ? "needs" : "makes"] = substr($0, 13, length($0) - 16); next }
    /^```sh$/ { ++n; name = to sprintf("%02d", n); for (k in said) print said[k] > (name "." k); delete said; on = 1; next }
    /^```/ { on = 0; next }
    on { print > name }' "$file"
  ran=0
  for block in "$work/$page/blocks"/[0-9][0-9]; do
    [ -e "$block" ] || { echo "FAILED: $page has no sh blocks"; exit 1; }
    if [ -s "$block.needs" ] && ! have "$(cat "$block.needs")"; then
      echo "$page, block $(basename "$block"): $(cat "$block.needs") is not here: skipped."
      continue
    fi
    if ! (cd "$work/$page/run" && bash -eu -o pipefail "$block") >"$work/out" 2>&1; then
      echo "FAILED: $page, block $(basename "$block")"
      sed 's/^/    /' "$block"
      tail -20 "$work/out"
      exit 1
    fi
    if [ -s "$block.makes" ]; then
      for made in $(cat "$block.makes"); do
        [ -s "$work/$page/run/$made" ] || { echo "FAILED: $page, block $(basename "$block"): no $made"; exit 1; }
      done
    fi
    ran=$((ran + 1))
  done
  echo "$page: $ran blocks run, $SECONDS s"
done
exit $status
