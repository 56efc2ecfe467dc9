#!/usr/bin/env bash
# Tries what a slice needs under the limits of the executor's own unit: a systemd of its own, in a container over a copy of
# this machine's files that vanishes with it, with a switch beside it. As root; what a machine lacks is named, not failed.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in systemd-nspawn ovs-vswitchd qemu-img ssh; do
  if ! command -v "$program" >/dev/null; then echo "not run: $program is not installed"; exit 0; fi
done
if [ "$(id -u)" -ne 0 ] || [ ! -e /dev/net/tun ]; then echo "not run: needs root and /dev/net/tun"; exit 0; fi

target=${CARGO_TARGET_DIR:-target}
cargo build -q -p executor --bin gpuaas-node-executor
tests=$(cargo test -p executor --test all --no-run 2>&1 | sed -n 's|^ *Executable .*(\(.*\))$|\1|p')

work=$(mktemp -d /tmp/gpuaas-unit.XXXXXX)
group=${work##*/}
pid=
finish() {
  if [ -n "$pid" ]; then
    kill -TERM "$pid" 2>/dev/null || true
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  fi
  umount -l "$work/root" 2>/dev/null || true
  umount -l "$work" 2>/dev/null || true
  rmdir "$work" || true
  find /sys/fs/cgroup -depth -type d -path "*/$group*" -exec rmdir {} + 2>/dev/null || true
}
trap finish EXIT

mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
if ! mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"; then
  echo "not run: this machine's files cannot be covered by others"
  exit 0
fi
root=$work/root
: >"$root/etc/machine-id"
cp "$target/debug/gpuaas-node-executor" "$root/usr/bin/gpuaas-node-executor"
cp "$tests" "$root/usr/bin/gpuaas-unit-lab"
chmod 0755 "$root"/usr/bin/gpuaas-{node-executor,unit-lab}
cp deploy/systemd/gpuaas-node-executor.service "$root/etc/systemd/system/"
mkdir -p "$root/etc/gpuaas" "$root/etc/systemd/system/gpuaas-node-executor.service.d"
touch "$root/etc/gpuaas/unit-lab"
cat >"$root/etc/systemd/system/gpuaas-node-executor.service.d/lab.conf" <<'EOF'
[Service]
Type=oneshot
Restart=no
ExecStart=
ExecStart=/usr/bin/gpuaas-unit-lab --exact lab::unit::a_slice_can_be_made_under_the_executors_unit --ignored --nocapture
StandardOutput=file:/etc/gpuaas/said
StandardError=file:/etc/gpuaas/said
EOF

# A control group of its own in every hierarchy, so that its systemd may have what is below.
(
  for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*/; do
    [ -e "$hierarchy/cgroup.procs" ] && mkdir -p "$hierarchy/$group" 2>/dev/null || continue
    for file in cpuset.cpus cpuset.mems; do
      if [ -e "$hierarchy/$file" ]; then cat "$hierarchy/$file" >"$hierarchy/$group/$file" 2>/dev/null || true; fi
    done
    echo "$BASHPID" >"$hierarchy/$group/cgroup.procs" 2>/dev/null || true
  done
  exec systemd-nspawn -q -b -D "$root" --register=no --keep-unit --private-network -M "$group" --console=pipe \
    --bind=/dev/net/tun --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
    -- --unit=basic.target
) >"$work/console" 2>&1 </dev/null &
pid=$!

state=
for _ in $(seq 300); do
  first=$(pgrep -P "$pid" | head -n 1 || true)
  if [ -n "$first" ]; then state=$(nsenter -t "$first" -a systemctl is-system-running 2>/dev/null || true); fi
  case "$state" in running | degraded) break ;; esac
  sleep 0.1
done
case "$state" in
  running | degraded) ;;
  *) echo "not run: no systemd came up in a container"; tail -n 5 "$work/console"; exit 0 ;;
esac

inside() { nsenter -t "$first" -a "$@"; }
# Where devices are counted in a hierarchy of their own, which the container got read-only.
inside sh -c 'if [ -d /sys/fs/cgroup/devices ]; then
  mount -o remount,bind,rw /sys/fs/cgroup; mount -o remount,bind,rw /sys/fs/cgroup/devices; systemctl daemon-reexec; fi'
inside groupadd --system gpuaas 2>/dev/null || true
inside sh -c 'set -e; mkdir -p /run/openvswitch
  ovsdb-tool create /run/openvswitch/lab.db /usr/share/openvswitch/vswitch.ovsschema
  ovsdb-server /run/openvswitch/lab.db --remote=punix:/run/openvswitch/db.sock --pidfile --detach --no-chdir
  ovs-vsctl --no-wait init
  ovs-vswitchd unix:/run/openvswitch/db.sock --pidfile --detach --no-chdir
  ovs-vsctl --timeout=20 add-br br-slice -- set bridge br-slice datapath_type=netdev
  ip addr add 10.77.0.1/24 dev br-slice; ip link set br-slice up' >"$work/switch" 2>&1 || { cat "$work/switch"; exit 1; }
status=0
inside systemctl start gpuaas-node-executor.service || status=$?
cat "$root/etc/gpuaas/said" || true
# A test that has another name by now would be none at all, and pass.
grep -q '^test result: ok. 1 passed' "$root/etc/gpuaas/said" || { echo "the test of the unit did not run"; status=1; }
if [ "$status" -ne 0 ]; then inside systemctl status --no-pager gpuaas-node-executor.service || true; fi
exit "$status"
