#!/.lab/bin/sh
# The guest's first process: makes the root directory, then becomes /.lab/session in it.
# lab.root=packed: the initramfs itself is the root. lab.root=host: the host's files by virtiofs, under a tmpfs.
export PATH=/.lab/bin

fail() {
    echo "lab: $*" >/dev/console
    poweroff -f
}

mkdir -p /proc /sys /dev
mount -t proc proc /proc
mount -t sysfs sysfs /sys
[ -c /dev/null ] || mount -t devtmpfs dev /dev
for module in /.lab/modules/*; do
    [ ! -e "$module" ] || insmod "$module"
done

case $(cat /proc/cmdline) in
*lab.root=packed*)
    mkdir -p /bin /tmp /etc
    [ -e /bin/sh ] || ln -s /.lab/bin/sh /bin/sh
    [ -e /etc/passwd ] || echo 'root:x:0:0:root:/:/bin/sh' >/etc/passwd
    [ -e /etc/group ] || echo 'root:x:0:' >/etc/group
    exec /.lab/bin/sh /.lab/session
    ;;
esac

mkdir -p /host /upper /newroot
mount -t virtiofs labroot /host || fail 'cannot mount the host root'
[ -e /.lab/overlay.ko.xz ] && insmod /.lab/overlay.ko.xz
if grep -qw overlay /proc/filesystems; then
    mount -t tmpfs -o size=75% upper /upper
    mkdir /upper/files /upper/work
    mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work root /newroot ||
        fail 'cannot mount the overlay'
else
    # A kernel without overlayfs: a tmpfs with the top-level directories bound into it, read-only.
    mount -t tmpfs -o size=75% root /newroot
    for entry in /host/*; do
        name=${entry##*/}
        case $name in proc | sys | dev | run | tmp | lost+found) continue ;; esac
        if [ -L "$entry" ]; then
            cp -a "$entry" "/newroot/$name"
        elif [ -d "$entry" ]; then
            mkdir "/newroot/$name"
            mount -o bind "$entry" "/newroot/$name" && mount -o remount,bind,ro "/newroot/$name"
        fi
    done
fi

for dir in proc sys dev run tmp .lab; do
    [ -d "/newroot/$dir" ] || mkdir "/newroot/$dir"
done
for dir in proc sys dev; do
    mount --move "/$dir" "/newroot/$dir"
done
mount -t tmpfs run /newroot/run
mount -t tmpfs lab /newroot/.lab
cp -a /.lab/. /newroot/.lab/
exec switch_root /newroot /.lab/bin/sh /.lab/session
