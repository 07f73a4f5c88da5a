/* The ring: order, checksums, blocking, ends, two processes. Clean under the thread sanitizer. */
#define _GNU_SOURCE /* memfd_create */
#include "tests/unit/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/rng.h"
#include "pipe/futex.h"
#include "pipe/ring.h"

#define SLOT_BYTES 96
#define WORDS      (SLOT_BYTES / 8)

/* A ring in memory of its own, shared with a later child. */
struct room {
    struct zl_ring *ring;
    uint64_t bytes;
};

static struct room room_open(uint32_t slots, uint64_t slot_bytes)
{
    struct room room = {.bytes = zl_ring_bytes(slots, slot_bytes)};
    assert_true(room.bytes > 0);
    void *p = mmap(NULL, room.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    room.ring = zl_ring_init(p, slots, slot_bytes);
    return room;
}

static void room_close(struct room *room)
{
    munmap(room->ring, room->bytes);
}

/* Message i carries its number and words made from it, so a torn, stale, lost or doubled slot shows. */
static void fill(uint64_t *slot, uint64_t i)
{
    slot[0] = i;
    for (int w = 1; w < WORDS; w++)
        slot[w] = (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)w;
}

static bool holds(const uint64_t *slot, uint64_t i)
{
    uint64_t want[WORDS];
    fill(want, i);
    return memcmp(slot, want, sizeof want) == 0;
}

static void sleep_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000}, NULL);
}

static int64_t thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What one side does: pass `messages` on and then end, dawdling now and then when a seed is given. */
struct job {
    struct zl_ring *ring;
    uint64_t messages, seed;
    uint64_t done;  /* passed on */
    uint64_t wrong; /* slots with other contents than they should have */
};

static void dawdle(const struct job *j, uint32_t who, uint64_t i)
{
    if (!j->seed)
        return;
    uint64_t r = zl_random_u64(j->seed, ZL_STREAM_TEST, who, i);
    if (r % 64 == 0)
        sleep_ns((long)(r >> 8) % 200000);
    else if (r % 8 == 0)
        sched_yield();
}

static void *produce(void *arg)
{
    struct job *j = arg;
    for (uint64_t i = 0; i < j->messages; i++) {
        uint64_t *slot = zl_ring_reserve(j->ring);
        if (!slot)
            return NULL;
        fill(slot, i);
        dawdle(j, 0, i);
        zl_ring_publish(j->ring);
        j->done++;
    }
    zl_ring_close(j->ring);
    return NULL;
}

static void *consume(void *arg)
{
    struct job *j = arg;
    const uint64_t *slot;
    while ((slot = zl_ring_peek(j->ring))) {
        dawdle(j, 1, j->done);
        j->wrong += !holds(slot, j->done);
        j->done++;
        zl_ring_release(j->ring);
    }
    return NULL;
}

static void run_pair(uint32_t slots, uint64_t messages, uint64_t seed)
{
    struct room room = room_open(slots, SLOT_BYTES);
    struct job in = {room.ring, messages, seed, 0, 0}, out = in;
    int64_t start = zl_clock_ns();
    pthread_t a, b;
    assert_int_equal(pthread_create(&a, NULL, produce, &in), 0);
    assert_int_equal(pthread_create(&b, NULL, consume, &out), 0);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    struct zl_ring_stats s = zl_ring_stats(room.ring);
    print_message("%u slots: %llu messages, %.0f ns each; producer waited %.0f ms, consumer %.0f ms\n",
                  slots, (unsigned long long)out.done,
                  (double)(zl_clock_ns() - start) / (double)messages,
                  (double)s.producer_wait_ns / 1e6, (double)s.consumer_wait_ns / 1e6);
    assert_int_equal(in.done, messages);
    assert_int_equal(out.done, messages);
    assert_int_equal(out.wrong, 0);
    assert_int_equal(s.published, messages);
    assert_int_equal(s.released, messages);
    room_close(&room);
}

#ifdef __SANITIZE_THREAD__
#define MANY 100000
#else
#define MANY 1000000
#endif

static void a_million_messages_arrive_once_and_in_order(void **state)
{
    (void)state;
    run_pair(1, MANY, 0);
    run_pair(2, MANY, 0);
    run_pair(8, MANY, 0);
}

static void random_delays_lose_nothing(void **state)
{
    (void)state;
    run_pair(1, 3000, 11);
    run_pair(2, 3000, 12);
    run_pair(3, 3000, 13);
    run_pair(8, 3000, 14);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    assert_int_equal(zl_ring_bytes(0, 128), 0);
    assert_int_equal(zl_ring_bytes(2, UINT64_MAX), 0);
    assert_int_equal(zl_ring_bytes(2, UINT64_MAX - 200), 0);
    assert_int_equal(zl_ring_bytes(4, UINT64_MAX / 4), 0);
    assert_int_equal(zl_ring_bytes(UINT32_MAX, 128), 0);
    assert_int_equal(zl_ring_bytes(3, 129) - zl_ring_bytes(1, 129), 2 * 256);
    struct room room = room_open(3, 129);
    unsigned char *a = zl_ring_reserve(room.ring);
    zl_ring_publish(room.ring);
    unsigned char *b = zl_ring_reserve(room.ring);
    assert_int_equal(b - a, 256);
    assert_int_equal((uintptr_t)a % 128, 0);
    room_close(&room);
}

static void try_only_looks_or_waits_a_while(void **state)
{
    (void)state;
    struct room room = room_open(1, SLOT_BYTES);
    struct zl_ring *r = room.ring;
    assert_null(zl_ring_try_peek(r, 0));
    int64_t start = zl_clock_ns();
    assert_null(zl_ring_try_peek(r, 20000000));
    assert_true(zl_clock_ns() - start >= 20000000);
    assert_non_null(zl_ring_try_reserve(r, 0));
    zl_ring_publish(r);
    start = zl_clock_ns();
    assert_null(zl_ring_try_reserve(r, 20000000));
    assert_true(zl_clock_ns() - start >= 20000000);
    assert_non_null(zl_ring_try_peek(r, INT64_MAX));
    assert_true(zl_ring_stats(r).producer_wait_ns >= 20000000);
    assert_true(zl_ring_stats(r).consumer_wait_ns >= 20000000);
    room_close(&room);
}

static void close_drains_and_drops_what_is_reserved(void **state)
{
    (void)state;
    struct room room = room_open(4, SLOT_BYTES);
    struct zl_ring *r = room.ring;
    for (uint64_t i = 0; i < 3; i++) {
        fill(zl_ring_reserve(r), i);
        zl_ring_publish(r);
    }
    assert_non_null(zl_ring_reserve(r));
    assert_false(zl_ring_is_closed(r));
    zl_ring_close(r);
    zl_ring_close(r);
    zl_ring_publish(r);
    assert_null(zl_ring_reserve(r));
    assert_true(zl_ring_is_closed(r));
    for (uint64_t i = 0; i < 3; i++) {
        assert_false(zl_ring_is_done(r));
        uint64_t *slot = zl_ring_peek(r);
        assert_non_null(slot);
        assert_true(holds(slot, i));
        zl_ring_release(r);
    }
    assert_true(zl_ring_is_done(r));
    assert_null(zl_ring_peek(r));
    assert_int_equal(zl_ring_stats(r).published, 3);
    room_close(&room);
}

static void abort_does_not_drain(void **state)
{
    (void)state;
    struct room room = room_open(4, SLOT_BYTES);
    struct zl_ring *r = room.ring;
    fill(zl_ring_reserve(r), 0);
    zl_ring_publish(r);
    zl_ring_abort(r);
    assert_null(zl_ring_peek(r));
    assert_null(zl_ring_reserve(r));
    assert_true(zl_ring_is_done(r));
    assert_true(zl_ring_is_closed(r));
    room_close(&room);
}

static void *end_later(void *arg)
{
    struct job *j = arg;
    sleep_ns((long)j->seed);
    if (j->messages)
        zl_ring_close(j->ring);
    else
        zl_ring_abort(j->ring);
    return NULL;
}

/* A third thread ends the ring at a random moment; both sides must come back, and close must keep what was published. */
static void ends_at_random_moments_free_both_sides(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        uint64_t r = zl_random_u64(5, ZL_STREAM_TEST, 0, round);
        bool graceful = round % 2;
        struct room room = room_open(1 + round % 3, SLOT_BYTES);
        struct job in = {room.ring, UINT64_MAX, 0, 0, 0}, out = in;
        struct job stop = {room.ring, graceful, r % 700000, 0, 0};
        pthread_t a, b, c;
        assert_int_equal(pthread_create(&c, NULL, end_later, &stop), 0);
        assert_int_equal(pthread_create(&a, NULL, produce, &in), 0);
        assert_int_equal(pthread_create(&b, NULL, consume, &out), 0);
        pthread_join(a, NULL);
        pthread_join(b, NULL);
        pthread_join(c, NULL);
        struct zl_ring_stats s = zl_ring_stats(room.ring);
        assert_int_equal(out.wrong, 0);
        assert_int_equal(s.released, out.done);
        assert_true(s.published <= in.done && in.done <= s.published + 1);
        if (graceful)
            assert_int_equal(out.done, s.published);
        else
            assert_true(out.done <= s.published);
        room_close(&room);
    }
}

/* Blocked with nobody on the other side: only the end can wake these. */
static void an_end_wakes_a_sleeper(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct room room = room_open(1, SLOT_BYTES);
        struct job job = {room.ring, 2, 0, 0, 0}, stop = {room.ring, kind % 2, 5000000, 0, 0};
        pthread_t a, c;
        assert_int_equal(pthread_create(&a, NULL, kind < 2 ? produce : consume, &job), 0);
        assert_int_equal(pthread_create(&c, NULL, end_later, &stop), 0);
        pthread_join(a, NULL);
        pthread_join(c, NULL);
        assert_int_equal(job.done, kind < 2 ? 1 : 0);
        room_close(&room);
    }
}

static void *publish_later(void *arg)
{
    struct job *j = arg;
    sleep_ns((long)j->seed);
    fill(zl_ring_reserve(j->ring), 0);
    zl_ring_publish(j->ring);
    return NULL;
}

static void a_waiter_uses_no_cpu(void **state)
{
    (void)state;
    struct room room = room_open(1, SLOT_BYTES);
    struct job late = {room.ring, 1, 300000000, 0, 0};
    pthread_t a;
    assert_int_equal(pthread_create(&a, NULL, publish_later, &late), 0);
    int64_t wall = zl_clock_ns(), cpu = thread_cpu_ns();
    assert_non_null(zl_ring_peek(room.ring));
    wall = zl_clock_ns() - wall;
    cpu = thread_cpu_ns() - cpu;
    pthread_join(a, NULL);
    print_message("waited %.1f ms, used %.3f ms of processor time (bound 20)\n", (double)wall / 1e6,
                  (double)cpu / 1e6);
    assert_true(wall > 250000000);
    assert_true(cpu < 20000000);
    assert_true(zl_ring_stats(room.ring).consumer_wait_ns > 250000000);
    room_close(&room);
}

/* The child maps the same memory at another address: the ring holds no pointers and its futexes are not private. */
static void two_processes_share_a_ring(void **state)
{
    (void)state;
    uint64_t bytes = zl_ring_bytes(2, SLOT_BYTES);
    int fd = memfd_create("ring", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    void *mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(mine, MAP_FAILED);
    struct zl_ring *ring = zl_ring_init(mine, 2, SLOT_BYTES);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        void *theirs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        munmap(mine, bytes);
        struct job out = {theirs, 0, 21, 0, 0};
        consume(&out);
        _exit(out.done == 20000 && out.wrong == 0 ? 0 : 1);
    }
    struct job in = {ring, 20000, 0, 0, 0};
    produce(&in);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(zl_ring_stats(ring).released, 20000);
    assert_true(zl_ring_is_done(ring));
    munmap(mine, bytes);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(two_processes_share_a_ring),
        cmocka_unit_test(try_only_looks_or_waits_a_while),
        cmocka_unit_test(close_drains_and_drops_what_is_reserved),
        cmocka_unit_test(abort_does_not_drain),
        cmocka_unit_test(a_million_messages_arrive_once_and_in_order),
        cmocka_unit_test(random_delays_lose_nothing),
        cmocka_unit_test(ends_at_random_moments_free_both_sides),
        cmocka_unit_test(an_end_wakes_a_sleeper),
        cmocka_unit_test(a_waiter_uses_no_cpu),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
