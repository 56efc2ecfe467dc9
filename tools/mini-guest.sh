#!/usr/bin/env bash
# Builds the smallest guest that a slice can be tried with: Debian's cloud kernel, busybox and dropbear in a BIOS-bootable
# qcow2 of about 15 MB. It reads its first-boot configuration as cloud-init does, from a disk labelled cidata.
# mini-guest.sh DIR; silent and quick when DIR/mini.qcow2 is there and newer than its sources.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to}
mkdir -p "$out"
cd "$out"
image=$PWD/mini.qcow2
if [ "$image" -nt "$here/mini-guest.sh" ] && [ "$image" -nt "$here/mini-guest-init" ]; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# --- the kernel, from its package; nothing is installed -----------------------------------------
newest() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ { print $2; exit }'; }
kernel=$(newest)
[ -n "$kernel" ] || { apt-get -qq update && kernel=$(newest); }
version=${kernel#linux-image-}
chmod 0777 . # apt downloads as a user of its own
apt-get -qq download "$kernel" 2>/dev/null || { apt-get -qq update && apt-get -qq download "$kernel"; }
dpkg-deb -x "$kernel"_*.deb kernel
depmod -b kernel "$version"

# --- the root file system, which is all in memory -----------------------------------------------
mkdir -p root/{bin,sbin,proc,sys,dev,run,tmp,etc/dropbear,root/.ssh,home,mnt/seed,var/lib,lib/modules,usr/bin}
cp /bin/busybox root/bin/busybox
for name in $(/bin/busybox --list); do [ "$name" = busybox ] || ln -sf busybox "root/bin/$name"; done
for program in dropbear dropbearconvert; do
  path=$(PATH=$PATH:/usr/sbin:/usr/lib/dropbear command -v "$program")
  cp "$path" root/bin/
  for library in $(ldd "$path" | grep -oE '/[^ ]+'); do
    mkdir -p "root$(dirname "$library")"
    cp -Lu "$library" "root$library"
  done
done
cp -L /lib/x86_64-linux-gnu/libnss_files.so.2 root/lib/x86_64-linux-gnu/ 2>/dev/null || true
echo 'root:x:0:0:root:/root:/bin/sh' >root/etc/passwd
echo 'root:x:0:' >root/etc/group
echo 'root:*:19000:0:99999:7:::' >root/etc/shadow
echo /bin/sh >root/etc/shells
echo 'passwd: files' >root/etc/nsswitch.conf
for module in virtio_pci virtio_blk virtio_net isofs virtio_rng button evdev af_packet; do
  modprobe -d "$PWD/kernel" -S "$version" --show-depends "$module" 2>/dev/null | awk '/^insmod/ { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
  cp "$file" root/lib/modules/
  basename "$file" .ko >>root/lib/modules/order
done
cp "$here/mini-guest-init" root/init
chmod 0755 root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >mini.img

# --- a disk that a BIOS boots --------------------------------------------------------------------
truncate -s 48M disk.raw
echo 'start=2048, type=c, bootable' | sfdisk -q disk.raw
mformat -i disk.raw@@1M -v MINI -T $((47 * 2048)) -h 64 -s 32 ::
printf 'DEFAULT mini\nTIMEOUT 1\nPROMPT 0\nLABEL mini\n KERNEL /vmlinuz\n INITRD /mini.img\n APPEND console=ttyS0 quiet mitigations=off\n' >syslinux.cfg
cp "kernel/boot/vmlinuz-$version" vmlinuz
mcopy -i disk.raw@@1M vmlinuz mini.img syslinux.cfg ::
syslinux --install --offset $((2048 * 512)) disk.raw
dd if=/usr/lib/syslinux/mbr/mbr.bin of=disk.raw conv=notrunc bs=440 count=1 status=none
qemu-img convert -c -O qcow2 disk.raw mini.qcow2
mv mini.qcow2 "$image.new"
mv "$image.new" "$image"
