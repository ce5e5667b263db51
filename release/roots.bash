# Clean Debian roots: sourced by release/clean-root and release/clean-engines with PACKAGES and SUITE set. It needs root,
# debootstrap, and Debian's mirror.

readonly TARGET="${CARGO_TARGET_DIR:-$PWD/target}"
readonly ROOTS="$TARGET/clean-roots"
readonly BASE="$ROOTS/$SUITE"

make_base() {
    ((EUID == 0)) || { echo "$0: it makes roots: run it as root" >&2; exit 1; }
    [[ -e $BASE.complete ]] && return
    rm -rf "$BASE"
    mkdir -p "$ROOTS"
    debootstrap --variant=minbase "$SUITE" "$BASE" http://deb.debian.org/debian >"$BASE.log"
    touch "$BASE.complete"
}

# Defines step(), which runs a step in a root, and prints its milliseconds.
readonly STEP='step() {
    local began=$(date +%s%N)
    eval "$1" >/tmp/log 2>&1 || { printf "failed: %s\n" "$1" >&2; cat /tmp/log >&2; exit 1; }
    echo $((($(date +%s%N) - began) / 1000000))
}'

seconds() { printf '%d.%d' $(($1 / 1000)) $(($1 % 1000 / 100)); }

# Runs a command in a root of its own over $1, which is gone behind the command. The folder SHARED, if set, is at the same
# path inside.
in_root() {
    local base=$1
    shift
    unshare --mount --pid --fork --kill-child bash -euc '
        base=$1 packages=$2 shared=$3; shift 3
        mount -t tmpfs -o size=4g tmpfs /mnt
        mkdir /mnt/upper /mnt/work /mnt/root
        mount -t overlay overlay -o "lowerdir=$base,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
        cd /mnt/root
        mkdir -p proc dev packages tmp opt etc
        mount -t proc proc proc
        mount --rbind /dev dev
        mount --bind "$packages" packages
        if [[ -n $shared ]]; then mkdir -p ".$shared"; mount --bind "$shared" ".$shared"; fi
        cp /etc/resolv.conf etc/resolv.conf
        chmod 1777 tmp
        exec env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin DEBIAN_FRONTEND=noninteractive \
            LC_ALL=C.UTF-8 chroot . "$@"
    ' in_root "$base" "$PACKAGES" "${SHARED:-}" "$@"
}
