/* Tests the rules of due versions: while all are kept nothing is lost in any run; with one broken a
 * run soon shows a loss. */
#include <stdio.h>

#include "tests/lib/testlib.h"
#include "tests/sim/due_model.h"

#define KEPT   30000
#define BROKEN 400000 /* the rarest is found in some 20,000 on the average */

static void all_rules_are_kept(void **state)
{
    (void)state;
    struct due_world *w = calloc(1, sizeof *w);
    unsigned switches = 0, splits = 0, sealed = 0, kept = 0;
    uint32_t n = hsp_test_rounds(KEPT);
    assert_non_null(w);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t seed = hsp_test_rand("kept", i);
        due_run(w, seed, DUE_ALL_KEPT);
        if (w->why[0] != '\0') {
            fail_msg("run %u (0x%llx): %s", i, (unsigned long long)seed, w->why);
        }
        switches += w->switches;
        splits += w->splits;
        sealed += w->sealed_at_loss;
        kept += w->kept;
    }
    /* the events that the rules are about have happened */
    assert_true(switches > n / 2 && splits > n / 10 && sealed > n / 20 && kept > n / 50);
    free(w);
}

/* The number of runs until something is lost; 0: nothing is. */
static uint32_t runs_until_found(struct due_world *w, enum due_rule r)
{
    for (uint32_t i = 0; i < BROKEN; i++) {
        due_run(w, hsp_test_rand("broken", (uint64_t)BROKEN * (uint64_t)r + i), r);
        if (w->why[0] != '\0' && !w->stands) {
            return i + 1;
        }
    }
    return 0;
}

static void each_rule_is_needed(void **state)
{
    (void)state;
    struct due_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (int r = 0; r < DUE_ALL_KEPT; r++) {
        uint32_t runs = runs_until_found(w, (enum due_rule)r);
        if (runs == 0) {
            fail_msg("broken and not found: %s", due_rule_text((enum due_rule)r));
        }
        print_message("%s: broken, run %u: %s\n", due_rule_text((enum due_rule)r), runs, w->why);
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rules_are_kept),
                                       cmocka_unit_test(each_rule_is_needed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
