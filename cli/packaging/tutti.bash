# Completes the words of `tutti` in bash. Subcommands, options and names of algorithms are those that the program itself
# prints, so they are always those of its version.
# shellcheck shell=bash

# _tutti_options COMMAND...: a line per option of its help, with what it takes ("--label always|never"), if anything.
_tutti_options() {
  "$@" --help 2>/dev/null | awk '
    match($0, /^ +/) && RLENGTH <= 8 && substr($0, RLENGTH + 1, 1) == "-" {
      line = substr($0, RLENGTH + 1)
      gsub(/, +-/, ",-", line)
      names = line
      sub(/ .*/, "", names)
      rest = substr(line, length(names) + 1)
      value = ""
      if (rest ~ /^ [^ ]/) { split(rest, word, " "); value = word[1] }
      if (value ~ /^(Excludes|Needs):/) value = ""
      count = split(names, name, ",")
      for (i = 1; i <= count; ++i) print name[i], value
    }'
}

# _tutti_takes NAME: what that option takes, of the lines in $options.
_tutti_takes() {
  local name value
  while read -r name value; do
    if [[ $name == "$1" ]]; then printf '%s' "$value"; return; fi
  done <<<"$options"
}

_tutti_algorithms() { "$program" plan "$@" --list 2>/dev/null | sed -n 's/^  \([a-z][a-z_]*\).*/\1/p' | sort -u; }
_tutti_collectives() { "$program" plan --list 2>/dev/null | grep '^[a-z]'; }

# _tutti_values OPTION TAKES: the words that may follow an option.
_tutti_values() {
  local collective word
  case $1 in
    --algo | --algorithm | --compare)
      for word in "${COMP_WORDS[@]:2}"; do
        _tutti_collectives | grep -qxF -- "$word" && collective=$word
      done
      _tutti_algorithms ${collective:+"$collective"}
      return ;;
    --transport) echo shm tcp inproc; return ;;
  esac
  case $2 in
    *"{"*) word=${2#*\{}; word=${word%%\}*}; echo "${word//,/ }" ;;
    *"|"*) tr '|' '\n' <<<"$2" | grep '^[a-z0-9]' ;;
  esac
}

# _tutti_arguments SUBCOMMAND: the words that may stand where no option does.
_tutti_arguments() {
  case $1 in
    plan | tune | simulate) _tutti_collectives ;;
    bench)
      "$program" bench --help 2>/dev/null | sed -n '/^COLLECTIVE:/,/^$/p' | tr '\n' ' ' |
        sed 's/COLLECTIVE: //; s/; or \([^:]*\):.*/ \1 kernels/; s/,//g' ;;
    store) "$program" store --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' ;;
    learn) "$program" learn 2>/dev/null | sed -n 's/^ *\([0-9][0-9]*\)  .*/\1/p' ;;
  esac
}

# Where the program begins that `tutti run` starts: the first word that is neither an option nor an option's value.
_tutti_started() {
  local at
  for ((at = 2; at < COMP_CWORD; ++at)); do
    case ${COMP_WORDS[at]} in
      --) echo $((at + 1)); return ;;
      -*) [[ -z $(_tutti_takes "${COMP_WORDS[at]}") ]] || at=$((at + 1)) ;;
      *) echo "$at"; return ;;
    esac
  done
}

_tutti() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} options started words
  COMPREPLY=()
  # bash splits --label=never into three words.
  if [[ $word == "=" ]]; then
    word=
  elif [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
    words=$("$program" --help 2>/dev/null | sed -n '/^Examples:/q; s/^  \([a-z]*\)  *[a-z].*/\1/p')
    mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$word")
    return
  fi
  local command=("$program" "${COMP_WORDS[1]}")
  # These have subcommands, or what they measure, with options of their own.
  if [[ ${COMP_WORDS[1]} =~ ^(store|bench)$ && $COMP_CWORD -gt 2 && ${COMP_WORDS[2]} != -* ]]; then
    command+=("${COMP_WORDS[2]}")
  fi
  options=$(_tutti_options "${command[@]}")

  if [[ ${COMP_WORDS[1]} == run ]]; then
    started=$(_tutti_started)
    if [[ -n $started ]]; then
      COMP_WORDS=("${COMP_WORDS[@]:started}")
      COMP_CWORD=$((COMP_CWORD - started))
      if [[ ${COMP_WORDS[0]##*/} == tutti && $COMP_CWORD -gt 0 ]]; then _tutti; else compopt -o default 2>/dev/null; fi
      return
    fi
  fi

  local takes
  takes=$(_tutti_takes "$before")
  if [[ -n $takes ]]; then
    words=$(_tutti_values "$before" "$takes")
    local list=
    if [[ $word == *,* ]]; then list=${word%,*},; fi
    mapfile -t COMPREPLY < <(compgen -P "$list" -W "$words" -- "${word##*,}")
  elif [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${options//$'\n'/ }" -- "$word")
    return
  elif ((COMP_CWORD == 2)) || [[ ! ${COMP_WORDS[1]} =~ ^(store|learn)$ ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_tutti_arguments "${COMP_WORDS[1]}")" -- "$word")
  fi
  # File names where there are no words.
  if ((${#COMPREPLY[@]} == 0)); then compopt -o default 2>/dev/null; fi
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  # Run by the completions of other shells: `bash FILE INDEX WORD...` prints the candidates for the word of that index.
  COMP_CWORD=$1
  COMP_WORDS=("${@:2}")
  _tutti
  ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
else
  complete -F _tutti tutti
fi
