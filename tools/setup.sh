#!/usr/bin/env bash
# Sees that this machine has what a target needs: setup.sh build|lint|dev|test.
# As root on Debian it installs what is missing; otherwise it says in one line what to install, and
# stops. It is silent and quick when nothing is missing. It never installs or updates Rust.
set -euo pipefail

readonly WANT_RUST=1.95
purpose=${1:-build}

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# --- Rust -------------------------------------------------------------------------------------
have rustc || die "Rust $WANT_RUST or newer is needed: https://rustup.rs, then open a new shell"
found=$(rustc --version | cut -d' ' -f2)
[ "$(printf '%s\n%s\n' "$WANT_RUST" "${found%%-*}" | sort -V | head -n1)" = "$WANT_RUST" ] ||
  die "Rust $WANT_RUST or newer is needed, this is $found: run 'rustup update stable'"
case $purpose in
  lint | test)
    { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 ||
      die "rustfmt and clippy are needed: run 'rustup component add rustfmt clippy'"
    ;;
esac

# --- packages ---------------------------------------------------------------------------------
# PATH may link postgres alone; a directory counts when it has all three programs.
have_postgres() {
  local dir major
  for dir in "$(dirname "$(readlink -f "$(command -v postgres || echo /none/x)")")" /usr/lib/postgresql/*/bin; do
    [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ] || continue
    major=$("$dir/postgres" --version | grep -oE '[0-9]+' | head -n1)
    [ "${major:-0}" -ge 14 ] && return 0
  done
  return 1
}

missing=()
{ have cc && have make; } || missing+=(build-essential)
case $purpose in
  dev | test)
    have_postgres || missing+=(postgresql)
    have setpriv || missing+=(util-linux)
    ;;
esac
if [ "$purpose" = test ]; then
  # The account tests run the real useradd in a root directory of their own; the fault tests trace.
  PATH=$PATH:/usr/sbin have useradd || missing+=(passwd)
  have strace || missing+=(strace)
  have git || missing+=(git)
  # A real slice: switch, DHCP, hypervisor, and a small guest built from Debian's packages. No daemon of them is used;
  # the tests start their own.
  while read -r name package; do
    PATH=$PATH:/usr/sbin:/sbin have "$name" || missing+=("$package")
  done <<'PACKAGES'
qemu-system-x86_64 qemu-system-x86
qemu-img qemu-utils
libvirtd libvirt-daemon
virsh libvirt-clients
ovs-vswitchd openvswitch-switch
dnsmasq dnsmasq-base
ip iproute2
ssh openssh-client
busybox busybox-static
dropbear dropbear-bin
syslinux syslinux
mformat mtools
sfdisk fdisk
cpio cpio
depmod kmod
losetup mount
PACKAGES
  [ -f /usr/lib/syslinux/mbr/mbr.bin ] || missing+=(syslinux-common)
  compgen -G '/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so' >/dev/null ||
    missing+=(libvirt-daemon-driver-qemu libvirt-daemon-system)
fi
[ ${#missing[@]} -gt 0 ] || exit 0

[ "$(id -u)" = 0 ] || die "please install: sudo apt-get install ${missing[*]}"
have apt-get || die "please install the equivalents of these Debian packages: ${missing[*]}"

# Debian's package would start a cluster of its own at once. We want the programs only; the drop-in
# goes away again, so that a cluster wanted later is made as usual.
dropin=/etc/postgresql-common/createcluster.d/gpuaas-setup.conf
cleanup() {
  rm -f "$dropin"
  rmdir --ignore-fail-on-non-empty "$(dirname "$dropin")" 2>/dev/null || true
}
trap cleanup EXIT
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
  mkdir -p "$(dirname "$dropin")"
  echo 'create_main_cluster = false' >"$dropin"
fi

echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get install -y --no-install-recommends "${missing[@]}" ||
  { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; }; } >"$log" 2>&1; then
  tail -n 15 "$log" >&2
  rm -f "$log"
  die "apt-get could not install: ${missing[*]}"
fi
rm -f "$log"
