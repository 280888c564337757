# Completion for bash: subcommands, their options, targets and run folders.  usage: source completion.bash
# Subcommands and options are read from --help, once for each in a shell; targets from `hastings targets`.
declare -gA _hastings_known=()

_hastings_ask() {  # _hastings_ask KEY COMMAND...: the words that an awk program finds in what COMMAND prints
  local key=$1 program=$2
  shift 2
  [ -n "${_hastings_known[$key]+x}" ] || _hastings_known[$key]=$("$@" 2>/dev/null | awk "$program")
  _hastings_words=${_hastings_known[$key]}
}

_hastings() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} word i _hastings_words
  local -a path=()
  local subcommands='/^Subcommands:/ {on = 1; next} on && /^  [a-z]/ {print $1}'
  local options='/^  -/ {n = split($1, name, ","); for (i = 1; i <= n; ++i) if (name[i] ~ /^--/) print name[i]}'
  COMPREPLY=()
  # Which subcommand, and which of its own, stands before the cursor.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case $word in -*) break ;; esac
    _hastings_ask "subcommands ${path[*]}" "$subcommands" "$program" "${path[@]}" --help
    case $'\n'$_hastings_words$'\n' in *$'\n'"$word"$'\n'*) path+=("$word") ;; *) break ;; esac
  done
  if [[ $current == -* ]]; then
    _hastings_ask "options ${path[*]}" "$options" "$program" "${path[@]}" --help
    mapfile -t COMPREPLY < <(compgen -W "$_hastings_words" -- "$current")
    return
  fi
  case "${path[*]}" in
    "" | gan | data)
      _hastings_ask "subcommands ${path[*]}" "$subcommands" "$program" "${path[@]}" --help
      mapfile -t COMPREPLY < <(compgen -W "$_hastings_words" -- "$current")
      ;;
    sample | fit | check)
      # Names that are complete in themselves; a colon divides words in bash, so that files follow as usual after it.
      _hastings_ask targets '$1 !~ /[A-Z]/ {print $1}' "$program" targets
      mapfile -t COMPREPLY < <(compgen -W "$_hastings_words script: module: stan: plugin: logistic:" -- "$current"; compgen -f -- "$current")
      ;;
    reproduce)
      _hastings_ask experiments '{print $1}' "$program" reproduce list
      mapfile -t COMPREPLY < <(compgen -W "$_hastings_words list all" -- "$current")
      ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
  esac
}
complete -o filenames -F _hastings hastings
