#!/usr/bin/env bash
# Builds the machine in which passthrough is tried: Debian's generic kernel and, all in memory, busybox, dd, perl and
# the drivers of what the emulated board has. It runs one program, which is its disk.
# lab-host.sh DIR; silent and quick when DIR/initrd is there and newer than its sources.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to}
mkdir -p "$out"
cd "$out"
out=$PWD
if [ initrd -nt "$here/lab-host.sh" ] && [ initrd -nt "$here/lab-host-init" ] && [ -f vmlinuz ]; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# --- the kernel, from its package; nothing is installed -----------------------------------------
newest() { apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ && !seen++ { print $2 }'; }
kernel=$(newest)
[ -n "$kernel" ] || { apt-get -qq update && kernel=$(newest); }
version=${kernel#linux-image-}
chmod 0777 . # apt downloads as a user of its own
apt-get -qq download "$kernel" 2>/dev/null || { apt-get -qq update && apt-get -qq download "$kernel"; }
dpkg-deb -x "$kernel"_*.deb kernel
depmod -b kernel "$version"

# --- the root file system, which is all in memory -----------------------------------------------
mkdir -p root/{bin,proc,sys,dev,tmp,lib/modules,usr/bin}
cp /bin/busybox root/bin/busybox
for name in sh mount insmod cat chmod poweroff; do ln -s busybox "root/bin/$name"; done
# What the program under test starts, and what asks the kernel a question of its own.
for program in /usr/bin/dd /usr/bin/perl; do
  cp -L "$program" "root$program"
  ldd "$program" | grep -oE '/[^ ]+'
done >libraries
# What every program of Rust's needs, this one too.
for library in libgcc_s.so.1 libm.so.6 libc.so.6; do ldconfig -p | awk -v name="$library" '$1 == name && !seen++ { print $NF }'; done >>libraries
sort -u libraries | while read -r library; do
  mkdir -p "root$(dirname "$library")"
  cp -Lu "$library" "root$library"
done
modules() { for module in "$@"; do modprobe -d "$PWD/kernel" -S "$version" --show-depends "$module"; done; }
modules virtio_pci virtio_blk snd_hda_intel e1000 vfio_iommu_type1 vfio_pci |
  awk '/^insmod/ && !seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" root/lib/modules/
    basename "$file" >>root/lib/modules/order
  done
cp "$here/lab-host-init" root/init
chmod 0755 root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >initrd
mv "kernel/boot/vmlinuz-$version" "$out/vmlinuz"
mv initrd "$out/initrd.new"
mv "$out/initrd.new" "$out/initrd"
