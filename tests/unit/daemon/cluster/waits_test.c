/* Compares the link or the thread that all others wait for with a search that knows no graph. */
#include "tests/lib/testlib.h"

#include "daemon/cluster/waits.h"

#define MOST 9u

static uint64_t draw(uint64_t k, uint64_t below)
{
    return hsp_test_rand("waits", k) % below;
}

/* ---- brute force: each vertex walks n edges, which is far enough to be in its sink ---- */

struct sink {
    enum hsp_culprit_kind kind;
    uint32_t a, b; /* LINK: nodes; THREAD: vertex; CIRCLE: the least vertex of it */
};

static struct sink walk(const struct hsp_wait *w, uint32_t n, uint32_t v)
{
    for (uint32_t i = 0; i <= n; i++) {
        if (w[v].on == HSP_WAITS_NOBODY) {
            return (struct sink){HSP_CULPRIT_THREAD, v, v};
        }
        uint32_t x = w[v].node, y = w[w[v].on].node;
        if (w[v].link) {
            return (struct sink){HSP_CULPRIT_LINK, x < y ? x : y, x < y ? y : x};
        }
        v = w[v].on;
    }
    uint32_t least = v;
    for (uint32_t i = 0; i < n; i++, v = w[v].on) {
        least = v < least ? v : least;
    }
    return (struct sink){HSP_CULPRIT_CIRCLE, least, least};
}

static bool same(struct sink x, struct sink y)
{
    return x.kind == y.kind && x.a == y.a && x.b == y.b;
}

static uint32_t waiters_of(const struct hsp_wait *w, uint32_t n, struct sink s)
{
    uint32_t k = 0;
    for (uint32_t v = 0; v < n; v++) {
        k += w[v].on != HSP_WAITS_NOBODY && same(walk(w, n, v), s);
    }
    return k;
}

static bool in_circle(const struct hsp_wait *w, uint32_t n, uint32_t v)
{
    uint32_t x = v;
    for (uint32_t i = 0; i < n; i++) {
        x = w[x].on;
        if (x == v) {
            return true;
        }
    }
    return false;
}

/* How long the sink lasts: the longest wait over the link, in the circle, or of the thread. */
static uint64_t lasts(const struct hsp_wait *w, uint32_t n, struct sink s)
{
    uint64_t ms = 0;
    for (uint32_t v = 0; v < n; v++) {
        bool is =
            same(walk(w, n, v), s) && (s.kind == HSP_CULPRIT_LINK     ? w[v].link
                                       : s.kind == HSP_CULPRIT_THREAD ? w[v].on == HSP_WAITS_NOBODY
                                                                      : in_circle(w, n, v));
        ms = is && w[v].since_ms > ms ? w[v].since_ms : ms;
    }
    return ms;
}

static void compare(const struct hsp_wait *w, uint32_t n)
{
    struct hsp_waits_place scratch[MOST];
    struct hsp_culprit c = {0};
    uint32_t most = 0;
    uint64_t longest = 0;
    for (uint32_t v = 0; v < n; v++) {
        struct sink s = walk(w, n, v);
        uint32_t k = waiters_of(w, n, s);
        uint64_t ms = lasts(w, n, s);
        bool worse = k > most || (k == most && ms > longest);
        longest = worse ? ms : longest;
        most = worse ? k : most;
    }
    assert_int_equal(hsp_waits_culprit(w, n, scratch, &c), most > 0);
    if (most == 0) {
        return;
    }
    struct sink found = walk(w, n, c.at);
    assert_int_equal(found.kind, c.kind);
    assert_int_equal(c.waiters, most);
    assert_int_equal(waiters_of(w, n, found), most);
    assert_int_equal(lasts(w, n, found), longest);
    assert_int_equal(w[c.at].since_ms, longest);
    assert_int_equal(w[c.at].on, c.on);
    assert_true(c.kind != HSP_CULPRIT_LINK || w[c.at].link);
    assert_true(c.kind != HSP_CULPRIT_CIRCLE || in_circle(w, n, c.at));
}

static void as_a_search_without_a_graph(void **state)
{
    (void)state;
    struct hsp_wait w[MOST];
    uint64_t k = 0;
    for (uint32_t round = 0; round < hsp_test_rounds(20000); round++) {
        uint32_t n = 1 + (uint32_t)draw(k++, MOST);
        for (uint32_t v = 0; v < n; v++) {
            bool waits = draw(k++, 4) != 0;
            uint32_t on = (uint32_t)draw(k++, n);
            w[v] = (struct hsp_wait){
                .on = waits ? on : HSP_WAITS_NOBODY, .node = v / 2, .since_ms = draw(k++, 5)};
        }
        for (uint32_t v = 0; v < n; v++) {
            w[v].link =
                w[v].on != HSP_WAITS_NOBODY && w[w[v].on].node != w[v].node && draw(k++, 3) == 0;
        }
        compare(w, n);
    }
}

/* All graphs of 4 vertices. */
static void as_a_search_in_all_small_cases(void **state)
{
    (void)state;
    struct hsp_wait w[4];
    for (uint32_t code = 0; code < 9 * 9 * 9 * 9; code++) {
        uint32_t rest = code;
        for (uint32_t v = 0; v < 4; v++, rest /= 9) {
            uint32_t to = rest % 9 / 2;
            w[v] = (struct hsp_wait){.on = to == 4 ? HSP_WAITS_NOBODY : to,
                                     .link = to != 4 && to != v && rest % 9 % 2 == 1,
                                     .node = v,
                                     .since_ms = v % 2};
        }
        compare(w, 4);
    }
}

static void the_example_of_the_header(void **state)
{
    (void)state;
    const struct hsp_wait w[] = {{.on = 1, .node = 0},
                                 {.on = 2, .node = 1, .link = true, .since_ms = 7},
                                 {.on = HSP_WAITS_NOBODY, .node = 2},
                                 {.on = 2, .node = 3}};
    struct hsp_waits_place scratch[4];
    struct hsp_culprit c;
    assert_true(hsp_waits_culprit(w, 4, scratch, &c));
    assert_int_equal(c.kind, HSP_CULPRIT_LINK);
    assert_true(c.at == 1 && c.on == 2 && c.waiters == 2);
}

HSP_TEST_FILE(waits_test)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_example_of_the_header),
                                       cmocka_unit_test(as_a_search_in_all_small_cases),
                                       cmocka_unit_test(as_a_search_without_a_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
