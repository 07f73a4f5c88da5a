#!/usr/bin/env bash
# Machines that are small, crowded or locked down: the same adapter, byte for byte, and a note at most.
. "${ZL_SRCDIR:?}/tests/cli/lib.sh"
make_tiny 6 40
short=(train model train.jsonl --steps 2 --batch-tokens 256 -l 256 --stages 4 --look-ahead 1)
run 0 "${short[@]}" -o plain -q
silent err

# same NAME COMMAND...: the command prefix and the run give the plain run's adapter
same() {
    local name=$1 status=0
    shift
    "$@" "$zerolock" "${short[@]}" -o "$name" >out 2>err </dev/null || status=$?
    if [ "$status" -eq 77 ]; then
        echo "$name: cannot be tried here"
        return 1
    fi
    [ "$status" -eq 0 ] || fail "$name: status $status"
    cmp -s plain/adapter/adapter_model.safetensors "$name/adapter/adapter_model.safetensors" || fail "$name: another adapter"
}

same foreign env OMP_NUM_THREADS=64 OMP_PROC_BIND=true OMP_PLACES=sockets BLIS_NUM_THREADS=8 &&
    for variable in OMP_NUM_THREADS OMP_PROC_BIND BLIS_NUM_THREADS; do
        [ "$(grep -c "$variable" err)" -eq 1 ] || fail "not one note about $variable"
    done
same nonsense env OMP_NUM_THREADS=many,-1 OMP_SCHEDULE=x

# four stages on one CPU, and on the last one alone
if command -v taskset >/dev/null; then
    allowed=$(taskset -cp $$ | sed 's/.*: //')
    same one-cpu taskset -c "${allowed%%[-,]*}" && says err '4 stages share 1 core'
    same last-cpu taskset -c "${allowed##*[-,]}"
fi

# no io_uring, hardly any locked memory
locked() { (ulimit -l 64 2>/dev/null && exec "$ZL_BUILDDIR/tests/cli/without-uring" "$@"); }
[ ! -x "$ZL_BUILDDIR/tests/cli/without-uring" ] || same without-uring locked

# /dev/shm of one page, in a mount namespace of our own
small_shm() {
    # shellcheck disable=SC2016
    unshare -rm sh -c 'mount -t tmpfs -o size=4k tmpfs /dev/shm 2>/dev/null || exit 77; exec "$@"' sh "$@" || return $?
}
if unshare -rm true 2>/dev/null; then
    same small-shm small_shm && says err '/dev/shm cannot give'
else
    echo '/dev/shm: no mount namespace here'
fi
finish
