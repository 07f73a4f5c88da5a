/* Cores: which ones, and who gets which, for made-up machines, masks, quotas and control groups; memory read from text. */
#define _GNU_SOURCE
#include "tests/unit/test.h"

#include <hwloc.h>
#include <math.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cgroup.h"
#include "pipe/choose.h"
#include "pipe/cores.h"

static hwloc_topology_t machine(const char *description)
{
    hwloc_topology_t t;
    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_synthetic(t, description), 0);
    assert_int_equal(hwloc_topology_load(t), 0);
    return t;
}

/* The plan for a mask in hwloc's list form ("0-3,8"), compared with the CPUs in the order in which they are given out. */
static void expect(hwloc_topology_t t, const char *mask, double quota, int n, const int *cpu, int allowed)
{
    static struct zl_cores c;
    struct zl_error err = {0};
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    assert_int_equal(hwloc_bitmap_list_sscanf(set, mask), 0);
    assert_int_equal(zl_cores_choose(t, set, quota, &c, &err), 0);
    hwloc_bitmap_free(set);
    assert_int_equal(c.n, n);
    assert_int_equal(c.allowed, allowed);
    for (int i = 0; i < allowed; i++)
        assert_int_equal(c.cpu[i], cpu[i]);
}

#define EXPECT(t, mask, quota, n, ...)                                                             \
    expect(t, mask, quota, n, (const int[]){__VA_ARGS__},                                          \
           (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

/* 8 cores with 2 hardware threads each; PUs 2i and 2i+1 are siblings. */
#define SMT "pack:1 l3:1(size=33554432) l2:8(size=1048576) l1d:1(size=49152) core:1 pu:2"

static void siblings_are_left_out_but_kept_for_those_who_ask(void **state)
{
    (void)state;
    hwloc_topology_t t = machine(SMT);
    EXPECT(t, "0-15", 0, 8, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    EXPECT(t, "0-3", 0, 2, 0, 2, 1, 3);
    hwloc_topology_destroy(t);
}

static void a_sibling_stands_for_its_core_when_the_first_is_not_allowed(void **state)
{
    (void)state;
    hwloc_topology_t t = machine(SMT);
    EXPECT(t, "1,3,5", 0, 3, 1, 3, 5);
    EXPECT(t, "1-4", 0, 3, 1, 2, 4, 3);
    hwloc_topology_destroy(t);
}

static void siblings_are_used_when_they_are_all_we_have(void **state)
{
    (void)state;
    hwloc_topology_t t = machine(SMT);
    EXPECT(t, "4,5", 0, 2, 4, 5);
    EXPECT(t, "4,5", 1.9, 1, 4, 5);
    hwloc_topology_destroy(t);
}

static void the_mask_decides_even_without_cpu_0_or_with_offline_cpus(void **state)
{
    (void)state;
    hwloc_topology_t t = machine("core:4 pu:1");
    EXPECT(t, "2-3", 0, 2, 2, 3);
    EXPECT(t, "3", 0, 1, 3);
    EXPECT(t, "0-1023", 0, 4, 0, 1, 2, 3);
    static struct zl_cores c;
    struct zl_error err = {0};
    hwloc_bitmap_t none = hwloc_bitmap_alloc();
    assert_int_equal(zl_cores_choose(t, none, 0, &c, &err), ZL_ESYSTEM);
    print_message("%s\n", err.text);
    hwloc_bitmap_free(none);
    hwloc_topology_destroy(t);
}

static void the_quota_is_rounded_down_but_not_to_nothing(void **state)
{
    (void)state;
    hwloc_topology_t t = machine("core:4 pu:1");
    EXPECT(t, "0-3", 1.5, 1, 0, 1, 2, 3);
    EXPECT(t, "0-3", 0.25, 1, 0, 1, 2, 3);
    EXPECT(t, "0-3", 2, 2, 0, 1, 2, 3);
    EXPECT(t, "0-3", 7.65, 4, 0, 1, 2, 3);
    hwloc_topology_destroy(t);
    t = machine("core:96 pu:1");
    static struct zl_cores c;
    assert_int_equal(zl_cores_choose(t, hwloc_topology_get_allowed_cpuset(t), 7.65, &c, NULL), 0);
    assert_int_equal(c.n, 7);
    hwloc_topology_destroy(t);
}

static void fast_cores_come_first_on_hybrid_parts(void **state)
{
    (void)state;
    hwloc_topology_t t = machine("core:8 pu:1");
    hwloc_bitmap_t kind = hwloc_bitmap_alloc();
    hwloc_bitmap_set_range(kind, 0, 3);
    assert_int_equal(hwloc_cpukinds_register(t, kind, 0, 0, NULL, 0), 0);
    hwloc_bitmap_zero(kind);
    hwloc_bitmap_set_range(kind, 4, 7);
    assert_int_equal(hwloc_cpukinds_register(t, kind, 10, 0, NULL, 0), 0);
    hwloc_bitmap_free(kind);
    EXPECT(t, "0-7", 0, 8, 4, 5, 6, 7, 0, 1, 2, 3);
    EXPECT(t, "2-5", 2.5, 2, 4, 5, 2, 3);
    hwloc_topology_destroy(t);
}

static void caches_are_those_of_the_first_core(void **state)
{
    (void)state;
    static struct zl_cores c;
    hwloc_topology_t t = machine(SMT);
    assert_int_equal(zl_cores_choose(t, hwloc_topology_get_allowed_cpuset(t), 0, &c, NULL), 0);
    assert_int_equal(c.l1d_bytes, 48 * 1024);
    assert_int_equal(c.l2_bytes, 1 << 20);
    assert_int_equal(c.l3_bytes, 32 << 20);
    assert_int_equal(c.cores, 8);
    hwloc_topology_destroy(t);
    t = machine("core:2 pu:1");
    assert_int_equal(zl_cores_choose(t, hwloc_topology_get_allowed_cpuset(t), 0, &c, NULL), 0);
    assert_int_equal(c.l1d_bytes + c.l2_bytes + c.l3_bytes, 0);
    hwloc_topology_destroy(t);
}

static void this_machine_is_seen_through_the_mask_of_the_process(void **state)
{
    (void)state;
    static struct zl_cores c;
    struct zl_error err = {0};
    cpu_set_t before, one;
    assert_int_equal(zl_cores_detect(&c, &err), 0);
    assert_true(c.n >= 1 && c.n <= c.allowed);
    if (sched_getaffinity(0, sizeof before, &before) != 0)
        skip();
    assert_int_equal(c.allowed, CPU_COUNT(&before));
    int last = c.cpu[c.allowed - 1];
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int rc = zl_cores_detect(&c, &err);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(rc, 0);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.allowed, 1);
    assert_int_equal(c.cpu[0], last);
}

static struct zl_cores numbered(int n, int allowed)
{
    struct zl_cores c = {.n = n, .allowed = allowed, .cores = n};
    for (int i = 0; i < allowed; i++)
        c.cpu[i] = 10 + i;
    return c;
}

static void groups_get_cores_by_weight_and_neighbours(void **state)
{
    (void)state;
    static struct zl_core_group g[4];
    struct zl_cores c = numbered(8, 16);
    assert_int_equal(zl_cores_divide(&c, 0, 3, NULL, g, NULL), 0);
    assert_int_equal(g[0].n + g[1].n + g[2].n, 8);
    assert_int_equal(g[2].n, 2);
    for (int i = 0, at = 10; i < 3; i++)
        for (int k = 0; k < g[i].n; k++)
            assert_int_equal(g[i].cpu[k], at++);
    const double heavy[] = {1, 6, 1};
    assert_int_equal(zl_cores_divide(&c, 0, 3, heavy, g, NULL), 0);
    assert_int_equal(g[0].n, 1);
    assert_int_equal(g[1].n, 6);
    assert_int_equal(g[2].n, 1);
    const double odd[] = {0, -1, NAN};
    assert_int_equal(zl_cores_divide(&c, 5, 3, odd, g, NULL), 0);
    assert_int_equal(g[0].n + g[1].n + g[2].n, 5);
    assert_int_equal(zl_cores_divide(&c, 16, 1, NULL, g, NULL), 0);
    assert_int_equal(g[0].n, 16);
    struct zl_error err = {0};
    assert_int_equal(zl_cores_divide(&c, 64, 1, NULL, g, &err), ZL_EUSAGE);
    print_message("%s\n", err.text);
    assert_non_null(strstr(err.text, "only 16 processors"));
}

static void more_groups_than_cores_share_them(void **state)
{
    (void)state;
    static struct zl_core_group g[4];
    struct zl_cores c = numbered(1, 1);
    assert_int_equal(zl_cores_divide(&c, 0, 4, NULL, g, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(g[i].n, 1);
        assert_int_equal(g[i].cpu[0], 10);
    }
    c = numbered(2, 2);
    const double weight[] = {1, 1, 5, 2};
    assert_int_equal(zl_cores_divide(&c, 0, 4, weight, g, NULL), 0);
    const int want[] = {11, 11, 10, 11};
    for (int i = 0; i < 4; i++)
        assert_int_equal(g[i].cpu[0], want[i]);
    assert_int_equal(zl_cores_divide(&c, 0, 4, NULL, g, NULL), 0);
    assert_int_equal((g[0].cpu[0] == 10) + (g[1].cpu[0] == 10) + (g[2].cpu[0] == 10) + (g[3].cpu[0] == 10), 2);
}

static void cpu_max_is_a_quota_and_a_period(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double cpus; /* < 0: refused */
    } cases[] = {
        {"max 100000\n", 0},     {"150000 100000\n", 1.5}, {"765000 100000", 7.65}, {"5000 100000\n", 0.05},
        {"", -1},                {"max", -1},              {"max 0", -1},           {"0 100000", -1},
        {"-1 100000", -1},       {"100000", -1},           {"1e5 100000", -1},      {"100000 100000 x", -1},
        {"maximal 100000", -1},  {"100000  100000", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double cpus = 99;
        bool ok = zl_cgroup_parse_cpu_max(cases[i].text, &cpus);
        assert_int_equal(ok, cases[i].cpus >= 0);
        if (ok)
            assert_true(cpus > cases[i].cpus - 1e-12 && cpus < cases[i].cpus + 1e-12);
    }
}

/* A folder that stands for "/", with what a test puts into it. */
static char root[64];

static void put(const char *path, const char *text)
{
    char whole[512];
    int n = snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *p = whole + strlen(root) + 1; p < whole + n; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(whole, 0700);
            *p = '/';
        }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/zl-cores-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

#define NEAR(a, b) assert_true((a) > (b) - 1e-9 && (a) < (b) + 1e-9)

static void a_quota_of_a_group_above_counts_too(void **state)
{
    (void)state;
    NEAR(zl_cgroup_cpus(root), 0);
    put("/proc/self/cgroup", "0::/user.slice/job\n");
    put("/proc/self/mountinfo", "24 1 0:21 / / rw - ext4 /dev/vda rw\n"
                                "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    NEAR(zl_cgroup_cpus(root), 0);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    NEAR(zl_cgroup_cpus(root), 0);
    put("/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
    NEAR(zl_cgroup_cpus(root), 2.5);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
    NEAR(zl_cgroup_cpus(root), 0.5);
    assert_true(zl_cgroup_memory_left(root) == UINT64_MAX);
    put("/sys/fs/cgroup/user.slice/memory.max", "1000000\n");
    put("/sys/fs/cgroup/user.slice/memory.current", "700000\n");
    put("/sys/fs/cgroup/user.slice/memory.stat", "anon 600000\nfile 100000\ninactive_file 40000\n");
    put("/sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    put("/sys/fs/cgroup/user.slice/job/memory.current", "600000\n");
    assert_int_equal(zl_cgroup_memory_left(root), 340000);
}

/* Version 1, in a container that sees its own group as the root of the hierarchy. */
static void a_container_of_version_1_is_understood(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "4:memory:/docker/ab\n3:cpuset:/docker/ab\n2:cpu,cpuacct:/docker/ab\n0::/docker/ab\n");
    put("/proc/self/mountinfo", "40 30 0:30 /docker/ab /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
                                "41 30 0:31 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro master:1 - cgroup cgroup rw,cpu,cpuacct\n"
                                "42 30 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    NEAR(zl_cgroup_cpus(root), 0);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "765000\n");
    NEAR(zl_cgroup_cpus(root), 7.65);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "500\n");
    assert_true(zl_cgroup_memory_left(root) == UINT64_MAX);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "400\n");
    assert_int_equal(zl_cgroup_memory_left(root), 0);
}

static void memory_fields_are_read_in_kib(void **state)
{
    (void)state;
    uint64_t b = 7;
    assert_true(zl_memory_field("MemFree:  1 kB\nMemAvailable:   22684000 kB\n", "MemAvailable", &b));
    assert_int_equal(b, UINT64_C(22684000) * 1024);
    assert_true(zl_memory_field("x\nPss_Dirty: 9 kB\nPss:                 230 kB\n", "Pss", &b));
    assert_int_equal(b, 230 * 1024);
    assert_false(zl_memory_field("Pss: 230 MB\n", "Pss", &b));
    assert_false(zl_memory_field("Pss: -1 kB\n", "Pss", &b));
    assert_false(zl_memory_field("Pss: 99999999999999999999 kB\n", "Pss", &b));
    assert_false(zl_memory_field("Pss:", "Pss", &b));
    assert_false(zl_memory_field("", "Pss", &b));
}

static void the_proportional_set_size_follows_what_is_touched(void **state)
{
    (void)state;
    uint64_t anonymous, after, bytes = 32 << 20;
    uint64_t pss = zl_memory_pss(&anonymous);
    if (!pss) {
        print_message("skipped: this kernel has no smaps_rollup\n");
        skip();
    }
    assert_true(anonymous <= pss);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    memset(p, 1, bytes);
    uint64_t more = zl_memory_pss(&after);
    munmap(p, bytes);
    print_message("32 MiB touched: %.1f MiB more, %.1f MiB of them anonymous\n",
                  (double)(more - pss) / 1048576, (double)(after - anonymous) / 1048576);
    /* the thread sanitizer keeps four bytes for each of ours */
    uint64_t most = bytes + (4 << 20);
#ifdef __SANITIZE_THREAD__
    most = 6 * bytes;
#endif
    assert_true(after - anonymous >= bytes && after - anonymous < most);
    /* pages that we share with other programs count less the more of these run, so a start elsewhere may take some away */
    assert_true(more - pss + (4 << 20) >= bytes && more - pss < most);
    assert_true(zl_memory_available() > bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siblings_are_left_out_but_kept_for_those_who_ask),
        cmocka_unit_test(a_sibling_stands_for_its_core_when_the_first_is_not_allowed),
        cmocka_unit_test(siblings_are_used_when_they_are_all_we_have),
        cmocka_unit_test(the_mask_decides_even_without_cpu_0_or_with_offline_cpus),
        cmocka_unit_test(the_quota_is_rounded_down_but_not_to_nothing),
        cmocka_unit_test(fast_cores_come_first_on_hybrid_parts),
        cmocka_unit_test(caches_are_those_of_the_first_core),
        cmocka_unit_test(this_machine_is_seen_through_the_mask_of_the_process),
        cmocka_unit_test(groups_get_cores_by_weight_and_neighbours),
        cmocka_unit_test(more_groups_than_cores_share_them),
        cmocka_unit_test(cpu_max_is_a_quota_and_a_period),
        cmocka_unit_test_setup_teardown(a_quota_of_a_group_above_counts_too, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_container_of_version_1_is_understood, make_root, remove_root),
        cmocka_unit_test(memory_fields_are_read_in_kib),
        cmocka_unit_test(the_proportional_set_size_follows_what_is_touched),
    };
    return cmocka_run_group_tests_name("cores", tests, NULL, NULL);
}
