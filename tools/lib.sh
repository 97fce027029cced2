# Shared by tools/quickstart, tools/test and others: options, missing packages, phases. POSIX sh; sourced, not run.
# shellcheck shell=sh disable=SC2034 # the scripts that source this read `taken` and `jobs`

dry_run=no
install=yes
jobs=$(nproc 2>/dev/null || echo 2)

# wrong WHAT: ends with 2 for a wrong command line.
wrong() {
  printf '%s: %s (%s --help)\n' "$0" "$1" "$0" >&2
  exit 2
}

# Takes one option of both scripts. `taken` says how many words it used.
take_option() {
  taken=1
  case $1 in
    --dry-run) dry_run=yes ;;
    --no-install) install=no ;;
    -j) jobs=${2-}; taken=$(($# < 2 ? 1 : 2)) ;;
    -j*) jobs=${1#-j} ;;
    -*) wrong "no option \"$1\"; there are --dry-run, --no-install and -j N" ;;
    *) wrong "\"$1\" means nothing here" ;;
  esac
  case $jobs in '' | *[!0-9]* | 0*) wrong "-j takes a number from 1, not \"$jobs\"" ;; esac
}

say() { printf '%s\n' "$@"; }

# Prints the command; runs it unless --dry-run.
try() {
  say "+ $*"
  [ "$dry_run" = yes ] || "$@"
}

phase_name=
phase_start=0
phase_times=

# Ends the phase before and begins one; `phase ""` ends the last.
phase() {
  now=$(date +%s)
  if [ -n "$phase_name" ]; then
    phase_times="$phase_times$(printf '  %4d s  %s' $((now - phase_start)) "$phase_name")
"
  fi
  phase_name=$1
  phase_start=$now
  [ -z "$1" ] || say "" "== $1"
}

# ---- What is missing

have() { command -v "$1" >/dev/null 2>&1; }

# The packages of which the compiler does not find the header; all of them without a compiler.
missing_headers() {
  for pair in asio/version.hpp=libasio-dev fmt/core.h=libfmt-dev openssl/ssl.h=libssl-dev \
    doctest/doctest.h=doctest-dev CLI/CLI.hpp=libcli11-dev nlohmann/json.hpp=nlohmann-json3-dev \
    pugixml.hpp=libpugixml-dev cmark.h=libcmark-dev; do
    printf '#if !__has_include(<%s>)\n%s\n#endif\n' "${pair%=*}" "${pair#*=}"
  done | if have g++; then g++ -E -P -x c++ - 2>/dev/null | tr -d ' '; else grep dev; fi
}

# The packages that building needs and this machine lacks, by Debian's names.
missing_to_build() {
  have g++ || echo g++
  have meson || echo meson
  have ninja || echo ninja-build
  have pkg-config || echo pkg-config
  missing_headers
}

clang_tool() {
  for candidate in "$1-14" "$1"; do
    have "$candidate" && echo "$candidate" && return
  done
  return 1
}

# Whether clang++ has libFuzzer. A link is the only sign: the library lies where only clang knows.
can_fuzz() {
  compiler=$(clang_tool clang++) || return 1
  probe=$(mktemp -d)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$probe/probe.cc"
  "$compiler" -fsanitize=fuzzer "$probe/probe.cc" -o "$probe/probe" >/dev/null 2>&1 && found=0 || found=1
  rm -r "$probe"
  return "$found"
}

# The packages that checking needs on top.
missing_to_check() {
  have clang++-14 || have clang++ || echo clang-14
  can_fuzz || echo libclang-rt-14-dev
  have ld.lld-14 || have ld.lld || echo lld-14
  have clang-format-14 || have clang-format || echo clang-format-14
  have clang-tidy-14 || have clang-tidy || echo clang-tidy-14
  have cmake || echo cmake
  have shellcheck || echo shellcheck
  have ccache || echo ccache
}

# The packages that comparing with other libraries needs on top.
missing_to_compare() {
  have mpicxx.openmpi || echo libopenmpi-dev
  have mpirun.openmpi || echo openmpi-bin
  have mpicxx.mpich || echo libmpich-dev
  have mpirun.mpich || echo mpich
  for pair in gloo/allreduce.h=libgloo-dev hiredis/hiredis.h=libhiredis-dev; do
    [ -e "/usr/include/${pair%=*}" ] || echo "${pair#*=}"
  done
}

# The packages that building Debian's packages, and a root to install them in, needs on top.
missing_to_build_debian() {
  have dh || echo debhelper
  have dpkg-buildpackage || echo dpkg-dev
  have lintian || echo lintian
  have mmdebstrap || echo mmdebstrap
}

# is_system ID...: whether /etc/os-release names one of them.
is_system() {
  for id in "$@"; do
    grep -qs "^ID=$id\$" /etc/os-release && return
  done
  return 1
}

# The packages that tests need on top, which skip what they cannot do without. Few systems but these have SimGrid's.
missing_to_test() {
  have ip || echo iproute2
  have groff || echo groff-base
  for name in mandoc fish zsh spin; do
    have "$name" || echo "$name"
  done
  [ -e /usr/include/relacy/relacy.hpp ] || echo relacy-dev
  has_numpy python3 || has_numpy /usr/bin/python3 || echo python3-numpy
  if is_system debian ubuntu && ! pkg-config --exists simgrid 2>/dev/null; then echo libsimgrid-dev; fi
}

has_numpy() { "$1" -c 'import numpy' 2>/dev/null; }

# The packages that making a virtual environment needs.
missing_to_make_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv; }

# The packages that looking at the page of `tutti plan --html` needs on top. Ubuntu's package of that name is none.
missing_to_browse() {
  is_system debian || return 0
  have chromium || echo chromium
  missing_to_make_venv
}

# The packages that building the wheel of pytutti needs on top.
missing_to_build_python() {
  missing_to_make_venv
  python3 -c 'import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null ||
    echo python3-dev
}

# ---- CUDA's compiler, for the kernels of GPUs

has_nvcc() { have nvcc || [ -x /usr/local/cuda/bin/nvcc ] || [ -x build-cuda/lib/nvidia/cu13/bin/nvcc ]; }

# The packages that installing nvcc from PyPI needs.
missing_to_install_nvcc() { has_nvcc || missing_to_make_venv; }

# nvcc and what it includes from PyPI in build-cuda/, 300 MB, where lib/compute/gpu/meson.build looks.
install_nvcc() {
  python3 -m venv build-cuda && build-cuda/bin/python -m pip install --quiet --no-deps --upgrade --target build-cuda/lib \
    'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
    'nvidia-nvvm==13.0.*'
}

# install_wheel FOLDER WHEELS [REQUIREMENT ...]: makes a new virtual environment with the wheel in WHEELS.
install_wheel() {
  venv=$1
  wheels=$2
  shift 2
  python3 -m venv --clear "$venv" && "$venv/bin/python" -m pip install --quiet "$wheels"/*.whl "$@"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

can_be_root() {
  [ "$(id -u)" = 0 ] && return
  have sudo || return 1
  [ -t 0 ] || sudo -n true 2>/dev/null
}

# refuse_old_system OS-RELEASE: ends with 3 where the system's packages are older than what tutti needs.
refuse_old_system() {
  # shellcheck disable=SC1090 # NAME=value
  system=$(. "$1" 2>/dev/null && echo "${ID:-} ${VERSION_ID:-99}") || return 0
  version=${system#* }
  case $system in
    "debian "*) [ "${version%%.*}" -lt 12 ] || return 0 ;;
    "ubuntu "*) [ "${version%%.*}" -lt 24 ] || return 0 ;;
    *) return 0 ;;
  esac
  say "The packages of this system ($system) are too old: tutti needs Meson 1.0, GCC 12, fmt 9 and OpenSSL 3, which" \
    "Debian 12 and Ubuntu 24.04 are the first to have. Nothing was installed."
  exit 3
}

# Installs the packages named, or says how and ends with 3.
install_packages() {
  if [ $# = 0 ]; then
    say "nothing is missing"
    return
  fi
  say "missing: $*"
  if ! have apt-get; then
    say "Please install them with this system's package manager. By their names elsewhere:" \
      "  Fedora: gcc-c++ meson ninja-build pkgconf asio-devel fmt-devel openssl-devel doctest-devel cli11-devel json-devel pugixml-devel cmark-devel" \
      "  Arch:   gcc meson ninja pkgconf asio fmt openssl doctest cli11 nlohmann-json pugixml cmark"
    exit 3
  fi
  refuse_old_system /etc/os-release
  if [ "$dry_run" = yes ]; then
    say "+ apt-get update" "+ apt-get install -y --no-install-recommends $*"
  elif [ "$install" = yes ] && can_be_root; then
    # Plain names: every word is a package.
    as_root apt-get -q update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "$@"
  else
    say "Not installing without being allowed to. As root:" "  apt-get install -y --no-install-recommends $*"
    exit 3
  fi
}
