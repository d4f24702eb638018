/* Tests unions of device groups: coordinates, groups and both patterns as published, and as
 * trees. */
#include "tests/lib/covers.h"
#include "tests/lib/testlib.h"
#include "tests/unit/proto/layout/unions.h"

#define COUNT(x) (uint32_t)(sizeof(x) / sizeof((x)[0]))

static const struct hsp_ds two_rows_copied = {2, {0, HSP_DS_DUP}, {2, 2}};
static const struct hsp_ds copied_two_rows = {2, {HSP_DS_DUP, 0}, {2, 2}};
static const struct hsp_ds three = {3, {1, HSP_DS_PARTIAL, 0}, {2, 2, 2}};

static void places_have_coordinates(void **state)
{
    (void)state;
    static const uint32_t both[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    uint32_t at[HSP_MAX_DS];
    assert_int_equal(hsp_ds_devices(&two_rows_copied), 4);
    for (uint32_t p = 0; p < 4; p++) { /* in the order of the entries: the last varies fastest */
        hsp_ds_coords(&two_rows_copied, p, at);
        assert_memory_equal(at, both[p], sizeof both[p]);
        hsp_ds_coords(&copied_two_rows, p, at);
        assert_memory_equal(at, both[p], sizeof both[p]);
    }
    for (uint32_t p = 0; p < 8; p++) {
        hsp_ds_coords(&three, p, at);
        assert_int_equal(at[0], p / 4);
        assert_int_equal(at[1], p / 2 % 2);
        assert_int_equal(at[2], p % 2);
    }
}

static void groups_differ_in_one_entry(void **state)
{
    (void)state;
    static const uint32_t sums[8][2] = {{0, 2}, {1, 3}, {0, 2}, {1, 3},
                                        {4, 6}, {5, 7}, {4, 6}, {5, 7}};
    uint32_t group[2], at[HSP_MAX_DS], other[HSP_MAX_DS];
    for (uint32_t p = 0; p < 8; p++) {
        hsp_ds_group(&three, p, 1, group);
        assert_memory_equal(group, sums[p], sizeof sums[p]);
        hsp_ds_coords(&three, p, at);
        for (uint8_t e = 0; e < 3; e++) {
            hsp_ds_group(&three, p, e, group);
            assert_int_equal(group[at[e]], p);
            hsp_ds_coords(&three, group[1 - at[e]], other);
            for (uint8_t k = 0; k < 3; k++) {
                assert_int_equal(other[k] == at[k], k != e);
            }
        }
    }
}

static void cover_of(const struct hsp_union *u, uint8_t rank, const int64_t *extent,
                     struct hsp_cover *ret)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_annot *a = NULL;
    struct hsp_err err = {0};
    assert_ok(hsp_union_annot(u, arena, &a, &err), &err);
    assert_ok(hsp_annot_cover(a, rank, extent, NULL, ret, &err), &err);
    hsp_arena_free(arena);
}

static void assert_rows(const struct hsp_union *u, int64_t extent, const char *want)
{
    struct hsp_cover c;
    struct hsp_buf b;
    cover_of(u, 1, &extent, &c);
    hsp_buf_init(&b, 1024);
    for (uint32_t i = 0; i < c.n; i++) {
        hsp_buf_printf(&b, "%s%u:%d-%d", i > 0 ? " " : "", c.items[i].rank,
                       (int)c.items[i].box.lo[0], (int)c.items[i].box.hi[0]);
    }
    assert_string_equal(hsp_buf_cstr(&b), want);
    hsp_buf_fini(&b);
    hsp_cover_fini(&c);
}

/* 24 rows over a group of two halves and a group of one device. */
static void both_patterns(void **state)
{
    (void)state;
    static const uint32_t a[] = {0, 1}, b[] = {2};
    static const struct hsp_group dg[] = {{2, a}, {1, b}};
    static const struct hsp_ds ds[] = {{1, {0}, {2}}, {0}};
    static const int64_t uneven[] = {3, 1};
    struct hsp_union u = {.k = 2, .hdim = 0, .dg = dg, .ds = ds};
    assert_rows(&u, 24, "0:0-6 1:6-12 2:12-24");
    u.interleaved = true;
    assert_rows(&u, 24, "0:0-6 1:12-18 2:6-12 2:18-24");
    u.shares = uneven;
    assert_rows(&u, 24, "0:0-9 1:12-21 2:9-12 2:21-24");
}

/* Computes the slice and the addend of each device from its coordinates, without a tree. */
static void trees_are_coordinates(void **state)
{
    (void)state;
    static const uint32_t device[] = {7, 3, 0, 2, 6, 1, 5, 4};
    const struct hsp_group dg = {8, device};
    const int64_t extent[2] = {4, 6};
    struct hsp_union u = {.k = 1, .hdim = HSP_DS_NONE, .dg = &dg, .ds = &three};
    struct hsp_cover c, want;
    cover_of(&u, 2, extent, &c);
    hsp_cover_init(&want, 2, extent);
    for (uint32_t p = 0; p < 8; p++) {
        uint32_t at[HSP_MAX_DS];
        hsp_ds_coords(&three, p, at);
        struct hsp_box b = {.rank = 2, .lo = {2 * at[2], 3 * at[0]}};
        b.hi[0] = b.lo[0] + 2;
        b.hi[1] = b.lo[1] + 3;
        assert_status(hsp_cover_add(&want, device[p], at[1], &b), HSP_OK);
    }
    hsp_cover_normalise(&want);
    assert_true(hsp_cover_equal(&c, &want));
    hsp_cover_fini(&c);
    hsp_cover_fini(&want);
}

/* A group of 4 devices, and the same devices as two groups, give the same layout. */
static void lifting_changes_nothing(void **state)
{
    (void)state;
    static const uint32_t all[] = {0, 1, 2, 3};
    static const struct hsp_group one = {4, all}, two[] = {{2, all}, {2, all + 2}};
    static const struct hsp_ds rows = {1, {0}, {4}}, halves[] = {{1, {0}, {2}}, {1, {0}, {2}}};
    static const struct hsp_ds copies = {1, {HSP_DS_DUP}, {4}},
                               pairs[] = {{1, {HSP_DS_DUP}, {2}}, {1, {HSP_DS_DUP}, {2}}};
    static const struct hsp_ds sums = {1, {HSP_DS_PARTIAL}, {4}},
                               addends[] = {{1, {HSP_DS_PARTIAL}, {2}}, {1, {HSP_DS_PARTIAL}, {2}}};
    static const struct {
        const struct hsp_ds *flat, *lifted;
        int8_t hdim;
    } cases[] = {
        {&rows, halves, 0}, {&copies, pairs, HSP_DS_DUP}, {&sums, addends, HSP_DS_PARTIAL}};
    const int64_t extent[1] = {8};
    for (uint32_t i = 0; i < COUNT(cases); i++) {
        struct hsp_union flat = {.k = 1, .hdim = HSP_DS_NONE, .dg = &one, .ds = cases[i].flat};
        struct hsp_union lifted = {.k = 2, .hdim = cases[i].hdim, .dg = two, .ds = cases[i].lifted};
        struct hsp_cover a, b;
        bool same = false;
        cover_of(&flat, 1, extent, &a);
        cover_of(&lifted, 1, extent, &b);
        assert_true(hsp_cover_equal(&a, &b));
        assert_status(hsp_cover_same(&a, &b, &same), HSP_OK);
        assert_true(same);
        hsp_cover_fini(&a);
        hsp_cover_fini(&b);
    }
}

/* Builds a stage of two groups. Dim 0 is cut 3 to 1 between the groups. Group {0, 1} cuts its part
 * along dim 1, group {2} is a single device. */
static void three_tiers(void **state)
{
    (void)state;
    static const uint32_t a[] = {0, 1}, b[] = {2};
    static const struct hsp_group dg[] = {{2, a}, {1, b}};
    static const struct hsp_ds ds[] = {{1, {1}, {2}}, {0}};
    static const int64_t shares[] = {3, 1};
    const int64_t extent[2] = {8, 6};
    struct hsp_union u = {.k = 2, .hdim = 0, .shares = shares, .dg = dg, .ds = ds};
    struct hsp_cover c;
    cover_of(&u, 2, extent, &c);
    assert_int_equal(c.n, 3);
    assert_int_equal(c.items[1].box.hi[0], 6);
    assert_int_equal(c.items[1].box.lo[1], 3);
    assert_int_equal(c.items[2].box.lo[0], 6);
    assert_int_equal(c.items[2].box.hi[1], 6);
    hsp_cover_fini(&c);
}

static void assert_refused(struct hsp_union u, const char *want)
{
    struct hsp_arena *arena = hsp_arena_new(1 << 20);
    struct hsp_annot *a = NULL;
    struct hsp_err err = {0};
    assert_status(hsp_union_annot(&u, arena, &a, &err), HSP_EINVAL);
    assert_err(&err, HSP_EINVAL, want);
    hsp_arena_free(arena);
}

static void broken_unions_are_named(void **state)
{
    (void)state;
    static const uint32_t a[] = {0, 1}, far[] = {HSP_MAX_RANKS};
    static const struct hsp_group dg[] = {{2, a}, {1, a}}, one[] = {{2, a}, {1, far}};
    static const struct hsp_ds ds[] = {{1, {0}, {2}}, {0}}, none[] = {{1, {0}, {0}}, {0}},
                               twice[] = {{2, {0, 0}, {2, 1}}, {0}}, four[] = {{1, {4}, {2}}};
    const struct hsp_union u = {.k = 2, .hdim = 0, .dg = dg, .ds = ds};
    struct hsp_union x = u;
    assert_refused(u, "device 0 is in two places");
    x.dg = one;
    assert_refused(x, "device 1024 is above the limit");
    x.ds = none;
    assert_refused(x, "group 0: dim 0 has count 0");
    x.ds = twice;
    assert_refused(x, "group 0: dim 0 stands twice");
    x.ds = four;
    assert_refused(x, "group 0: dim 4 has count 2");
    x = u;
    x.ds = ds + 1;
    x.k = 1;
    assert_refused(x, "a union of 1 groups with relation 0");
    x.hdim = HSP_DS_NONE;
    assert_refused(x, "group 0: states for 1 devices, it has 2");
    x.k = 2;
    assert_refused(x, "a union of 2 groups with relation -3");
    x.hdim = HSP_DS_DUP;
    x.interleaved = true;
    assert_refused(x, "groups that cut no dim are not interleaved");
    x.hdim = 4;
    assert_refused(x, "groups cut dim 4");
}

HSP_TEST_FILE(unions_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_have_coordinates), cmocka_unit_test(groups_differ_in_one_entry),
        cmocka_unit_test(both_patterns),           cmocka_unit_test(trees_are_coordinates),
        cmocka_unit_test(lifting_changes_nothing), cmocka_unit_test(three_tiers),
        cmocka_unit_test(broken_unions_are_named),
    };
    return cmocka_run_group_tests_name("unions", tests, NULL, NULL);
}
