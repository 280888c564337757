#!/usr/bin/env bash
# The man page and the completion for bash.  usage: man_test.sh HASTINGS SOURCE_DIR
hastings=$(readlink -f "$1")
source=$(readlink -f "$2")
. "$(dirname "$(readlink -f "$0")")/cli_support.sh"

"$source/scripts/make_man" "$hastings" >hastings.1 2>err
check "man page" [ $? -eq 0 ]
# Every start of the program takes most of a second: no more of them than needed.
of() { "$hastings" "$@" --help | awk '/^Subcommands:/ {on = 1; next} on && /^  [a-z]/ {print $1}'; }
commands=$(of)
check "there are subcommands" [ "$(wc -w <<<"$commands")" -ge 10 ]
for command in $commands; do check "the man page has $command" grep -qx ".SS $command" hastings.1; done
for group in gan data; do
  for part in $(of $group); do check "the man page has $group $part" grep -qx ".SS $group $part" hastings.1; done
done
check "options are in it" grep -q '^\.B .*target.*ess' hastings.1
if command -v man >/dev/null; then
  LC_ALL=C.UTF-8 MANWIDTH=100 man --warnings -l hastings.1 >page 2>err
  check "man shows it" [ $? -eq 0 ]
  check "without warnings" [ ! -s err ]
  check "no source of roff is left in it" [ "$(grep -c '^ *\.[A-Z]' page)" -eq 0 ]
fi

# complete_words WORDS...: what bash would offer for the last of them
. "$source/scripts/completion.bash"
complete_words() {
  COMP_WORDS=("$hastings" "$@") COMP_CWORD=$#
  _hastings
  printf "%s\n" "${COMPREPLY[@]}" >out
}
complete_words sa; check "hastings sa completes" grep -qx sample out
complete_words sample ri; check "a target completes" grep -qx ring5 out
complete_words sample ring --target-; check "an option completes" grep -qx -- --target-ess out
complete_words gan cal; check "a subcommand's subcommand completes" grep -qx calibrate out
complete_words gan train --crit; check "and its options" grep -qx -- --critic-steps out
complete_words reproduce tab; check "an experiment completes" grep -qx table1 out
complete_words sample nosuch; check "nothing is made up" [ -z "$(cat out)" ]
finish
