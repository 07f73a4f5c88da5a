#!/usr/bin/env bash
# The checkpoint writer under refusals and errors of the system, let in by a preload object, filters, limits and small file systems: the
# generation under way is lost at most, with the reason; the last good one stays; the next one is tried again.
# In memory where there is some: hundreds of syncs would wait for the disk.
[ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 65536 ] 2>/dev/null && [ -w /dev/shm ] && TMPDIR=/dev/shm
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
writer=$ZL_BUILDDIR/tests/fault/write-checkpoints
inject=$ZL_BUILDDIR/tests/fault/.libs/libinject.so
[ -x "$writer" ] || skip "write-checkpoints is not built (it needs cmocka)"
[ -r "$inject" ] || skip "the preload object is not built"
cases=0

# write STATUS RULES ARGUMENT...: the writer under ZL_INJECT, in a new folder ./run; what it says is in ./said
write() {
    local expected=$1 status=0 rules=$2
    shift 2
    rm -rf run
    mkdir run
    cases=$((cases + 1))
    what="$rules $*"
    ZL_INJECT=$rules LD_PRELOAD=$inject ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 \
        "$writer" "$@" >said 2>err || status=$?
    [ "$status" -eq "$expected" ] || {
        cat said
        fail "$what: status $status, expected $expected"
    }
}
said() { grep -qF -- "$1" said || { cat said && fail "$what: it does not say: $1"; }; }
# left NAME...: just these files are in the folder, and all of them are sound
left() {
    local is
    is=$(cd run/checkpoints && echo *)
    [ "$is" = "$*" ] || fail "$what: left are $is, expected $*"
    run 0 checkpoint verify run
}

# both back ends: -p is pwrite, and the ring where there is one
rings=''
write 0 '' run 1
grep -q io_uring, said && rings='ring' || echo "without io_uring: $(head -n 1 said)"
for back_end in pwrite $rings; do
    # the first two syncs are of the folders above
    [ "$back_end" = pwrite ] && p=-p w=pwrite s=fsync:3 || p='' w=ring-write s=ring-fsync:1
    for buffered in '' -b; do
        # short and interrupted writes are finished
        for error in short EINTR EAGAIN; do
            for n in 1 4 "1-7" 12; do
                # shellcheck disable=SC2086
                write 0 "$w:$n:$error" $p $buffered run 1 2 3
                left 0000000002-step-2.zlc 0000000003-step-3.zlc
            done
        done
        # what cannot be written is lost, and only that: a generation is 12 to 14 writes
        for error in ENOSPC EIO EDQUOT EROFS; do
            for n in 1 3 9 13; do
                # shellcheck disable=SC2086
                write 1 "$w:$n:$error" $p $buffered run 1 2 3
                said 'step 1: lost: cannot write run/checkpoints/0000000001-step-1.zlc.tmp'
                left 0000000002-step-2.zlc 0000000003-step-3.zlc
            done
        done
        # the second generation: the first one stays through it
        # shellcheck disable=SC2086
        write 1 "$w:17-30:ENOSPC" $p $buffered -k 1 run 1 2
        said 'step 2: lost: '
        said 'No space left on device'
        left 0000000001-step-1.zlc
        # a sync that fails is not tried again: the file is lost
        # shellcheck disable=SC2086
        write 1 "$s:EIO" $p $buffered run 1 2
        said 'Input/output error'
        left 0000000002-step-2.zlc
        # shellcheck disable=SC2086
        write 1 "$s:ENOSPC" $p $buffered run 1 2
        left 0000000002-step-2.zlc
        # little memory: a stage that waits for room learns that the generation is lost
        # shellcheck disable=SC2086
        write 1 "$w:1:ENOSPC" $p $buffered -m 1 run 1 2
        left 0000000002-step-2.zlc
        # shellcheck disable=SC2086
        write 0 "$s:EINTR" $p $buffered run 1 2
        left 0000000001-step-1.zlc 0000000002-step-2.zlc
    done
    # past the page cache is refused at the first write: then through it
    # shellcheck disable=SC2086
    write 0 "$w:1:EINVAL" $p run 1 2
    left 0000000001-step-1.zlc 0000000002-step-2.zlc
    # shellcheck disable=SC2086
    write 1 "$w:1-:EINVAL" $p run 1 2
    said 'step 1: lost: '
    said 'Invalid argument'
    [ "$back_end" = pwrite ] || said 'step 2: generation 2, 0 removed, pwrite' # a ring that cannot: the next one goes without
    for call in openat fallocate close renameat; do
        # shellcheck disable=SC2086
        write 1 "$call:1:ENOSPC" $p run 1 2
        said 'step 1: lost: '
        left 0000000002-step-2.zlc
    done
    # a file system that cannot reserve is no reason to stop
    # shellcheck disable=SC2086
    write 0 "fallocate:1-:ENOSYS" $p run 1 2
    left 0000000001-step-1.zlc 0000000002-step-2.zlc
    # a folder whose name may go is no place
    # shellcheck disable=SC2086
    write 1 "fsync:1:EIO" $p run 1
    said 'cannot sync folder run: Input/output error'
    # the folder cannot be synced: it is there, but nothing may be removed for it
    [ "$back_end" = pwrite ] && n=6 || n=4
    # shellcheck disable=SC2086
    write 1 "fsync:$n:EIO" $p -k 1 run 1 2
    said 'step 2: lost: cannot sync folder run/checkpoints: Input/output error'
    left 0000000001-step-1.zlc 0000000002-step-2.zlc
    # what cannot be removed is said, and tried again
    # shellcheck disable=SC2086
    write 0 "unlinkat:1:EACCES" $p -k 1 run 1 2 3
    said 'step 2: generation 2, 0 removed'
    said 'cannot remove run/checkpoints/0000000001-step-1.zlc: Permission denied'
    said 'step 3: generation 3, 2 removed'
    left 0000000003-step-3.zlc
    # neither written nor removed: the rest goes when the folder is opened again
    # shellcheck disable=SC2086
    write 1 "$w:1:ENOSPC,unlinkat:1:EIO" $p run 1 2
    [ -e run/checkpoints/0000000001-step-1.zlc.tmp ] || fail 'the temporary file is gone: this shows nothing'
    "$writer" run 3 >said 2>err || fail 'the folder with a leftover cannot be used'
    left 0000000002-step-2.zlc 0000000003-step-3.zlc
done

# killed before each call: what has a full name is sound, the first generation is never lost again, and the next run cleans up and goes on
for p in -p ${rings:+''}; do
    for call in openat:{1,2,3} fallocate:{1,2,3} fsync:{1,3,4,5,6} close:{1,2,3} renameat:{1,2,3} unlinkat:{1,2} pwrite:{1,2,7,14,15,20,27,29} \
        enter:{2,3,4,5,6}; do
        rm -rf run && mkdir run
        cases=$((cases + 1))
        what="killed at $call $p"
        {
            ZL_INJECT=$call:kill LD_PRELOAD=$inject ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 \
                "$writer" $p -k 1 run 1 2 3 >said 2>err || true
        } 2>/dev/null
        before=$(grep -c generation said)
        echo "$before" >>lives
        [ "$before" -eq 0 ] || run 0 checkpoint verify run
        [ "$before" -eq 0 ] || [ "$("$zerolock" checkpoint list run | awk '/current/ { print $2 }')" -ge "$before" ] ||
            fail "$what: a generation that was reported is not the newest"
        "$writer" $p -k 1 run 9 >said 2>err || fail "$what: no more can be written: $(cat said)"
        is=$(cd run/checkpoints && echo *)
        [[ $is =~ ^00000000[0-9]*-step-9.zlc$ ]] || fail "$what: left are $is"
    done
done
[ "$(sort -u lives | wc -l)" -eq 4 ] || fail "the kills were all at the same place: $(sort lives | uniq -c)"

# io_uring refused: one note with the true reason, and the same bytes
refused() {
    said "checkpoints are written by pwrite, io_uring is not to be had: $1"
    said 'step 1: generation 1, 0 removed, pwrite'
    left 0000000001-step-1.zlc
    [ -e whole.zlc ] || cp run/checkpoints/0000000001-step-1.zlc whole.zlc
    cmp -s whole.zlc run/checkpoints/0000000001-step-1.zlc || fail "$what: other bytes"
}
if [ -n "$rings" ]; then
    write 0 '' run 1
    cp run/checkpoints/0000000001-step-1.zlc whole.zlc
    write 0 setup:1:ENOSYS run 1
    refused 'this kernel does not have it, or a filter (seccomp) hides it'
    disabled=$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0)
    for rules in setup:1:EPERM register:1:EPERM enter:1:EPERM; do
        write 0 $rules run 1
        if [ "$disabled" = 0 ]; then
            refused 'a security filter (seccomp or LSM) denies it: Operation not permitted'
        else
            refused "it is switched off by the system (kernel.io_uring_disabled = $disabled)"
        fi
    done
    ulimit -S -l 64
    for rules in setup:1:ENOMEM register:1:ENOMEM; do
        write 0 $rules run 1
        refused 'it must lock 1024 KiB of memory and the limit is 64 KiB (ulimit -l)'
    done
    ulimit -S -l hard
    # the ring breaks down while it is used: that generation is lost, the next one goes without it
    write 1 enter:2-:EIO run 1 2
    said 'step 1: lost: '
    said 'step 2: generation 2, 0 removed, pwrite'
    left 0000000002-step-2.zlc
fi

# the same refusals from the kernel
for error in ENOSYS EPERM ENOMEM; do
    rm -rf run && mkdir run
    what="filter $error" status=0
    "$ZL_BUILDDIR/tests/cli/without-uring" -e $error "$writer" run 1 >said 2>err || status=$?
    [ "$status" -ne 77 ] || break
    cases=$((cases + 1))
    [ "$status" -eq 0 ] || fail "$what: status $status"
    [ -n "$rings" ] && case $error in
        ENOSYS) refused 'this kernel does not have it' ;;
        EPERM) refused 'a security filter' ;;
        ENOMEM) [ "$(ulimit -l)" = unlimited ] && refused 'io_uring_setup: Cannot allocate' || refused 'it must lock' ;;
    esac
done

# little memory may be locked: only a process without privileges is held to it
if [ -n "$rings" ] && command -v setpriv >/dev/null; then
    rm -rf run && mkdir run && chmod 777 . run
    what='ulimit -l 64' unprivileged=''
    [ "$(id -u)" -ne 0 ] || unprivileged='setpriv --reuid 65534 --regid 65534 --clear-groups'
    # shellcheck disable=SC2086
    if $unprivileged test -x "$writer"; then
        # shellcheck disable=SC2086
        (ulimit -l 64 && $unprivileged "$writer" run 1 >said 2>err) || fail "$what: $(cat said)"
        refused 'it must lock 1024 KiB of memory and the limit is 64 KiB (ulimit -l)'
        cases=$((cases + 1))
    fi
fi

# small and read-only file systems, in a mount namespace of our own
cat >small.sh <<'END'
set -e
mount -t tmpfs -o size=1m tmpfs small
exec "$@"
END
mkdir small
if unshare -m bash small.sh true 2>/dev/null; then
    small() {
        local expected=$1 status=0
        shift
        what="small $*"
        cases=$((cases + 1))
        unshare -m bash small.sh "$@" >said 2>err || status=$?
        [ "$status" -eq "$expected" ] || { cat said && fail "$what: status $status, expected $expected"; }
    }
    # known before the start
    small 1 "$writer" -k 3 small 1
    said 'small/checkpoints: 1.0 MiB are free on its file system, but 4 checkpoints of 0.4 MiB must fit'
    # it fills while the run goes on, and there is room again later
    small 1 "$writer" -k 1 small 1 'sh:head -c 400000 /dev/zero >small/other' 2 "sh:$zerolock checkpoint verify small" \
        'sh:rm small/other' 3 "sh:$zerolock checkpoint verify small && ls small/checkpoints"
    said 'step 2: lost: cannot create small/checkpoints/0000000002-step-2.zlc.tmp: No space left on device'
    said '0000000003-step-3.zlc'
    grep -qF .tmp <(tail -n 1 said) && fail "$what: a temporary file is left"
    # it becomes read-only
    small 1 "$writer" -k 1 small 1 'sh:mount -o remount,ro small' 2 "sh:$zerolock checkpoint verify small" \
        'sh:mount -o remount,rw small' 3
    said 'step 2: lost: cannot create small/checkpoints/0000000002-step-2.zlc.tmp: Read-only file system'
    said 'step 3: generation 3, 1 removed'
else
    echo 'no mounts here: small and read-only file systems are not tried'
fi
echo "$cases cases"
finish
