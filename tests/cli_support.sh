# What the tests of the command line share. Sourced with $hastings set; works in a folder of its own.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0
checks=0

check() {  # check NAME CONDITION...
  local name=$1
  shift
  checks=$((checks + 1))
  if ! "$@"; then
    echo "FAILED: $name"
    [ -f err ] && sed 's/^/    /' err | head -5
    failed=$((failed + 1))
  fi
}
# fails CODE PATTERN ARGS...: exits with CODE and says PATTERN in one line on standard error
fails() {
  local code=$1 pattern=$2
  shift 2
  "$hastings" "$@" >out 2>err
  local got=$?
  check "hastings $* exits with $code (was $got)" [ "$got" -eq "$code" ]
  check "hastings $* says '$pattern'" grep -q -- "$pattern" err
  check "hastings $* says it in one line" [ "$(wc -l <err)" -eq 1 ]
}
finish() {
  echo "$((checks - failed)) passed, $failed failed"
  [ "$failed" -eq 0 ]
}
