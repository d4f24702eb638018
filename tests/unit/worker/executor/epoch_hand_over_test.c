/* Checks the hand-over of an epoch to the next epoch, which is a second member here. */
#include <pthread.h>

#include "tests/unit/worker/executor/epoch_members.h"
#include "worker/executor/epoch_train.h"

/* Makes two epochs; the next epoch has the number 8. */
static struct hsp_ex_epoch *make_two(struct em_world *w)
{
    em_make_world(w, 2);
    struct hsp_ex_epoch *e = &w->m[0].e;
    e->next = &w->m[1].e;
    e->next->number = 8;
    return e;
}

/* An epoch whose seals or copies have failed must not hand over: the next epoch would begin with a
 * version that is not sealed or not copied. */
static void an_epoch_that_has_failed_hands_nothing_over(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    bool left = true;
    (void)state;
    struct hsp_ex_epoch *e = make_two(&w), *next = e->next;
    (void)hsp_err_set(&e->uncopied, HSP_EDIGEST, 0, "version 40 here is damaged");
    em_assert_refused(hsp_epoch_hand_over(e, 8, EM_STEP, 0, &left, &err), &err, HSP_EDIGEST,
                      "version 40 here is damaged");
    assert_false(left || next->go);
    e->uncopied.code = HSP_OK;
    e->cancelled = true;
    assert_int_equal(hsp_epoch_hand_over(e, 8, EM_STEP, 0, &left, &err), HSP_ECANCELED);
    assert_false(left || next->go);
    assert_int_equal(e->phase, HSP_EPOCH_RUNNING);
    e->cancelled = false;
    assert_ok(hsp_epoch_hand_over(e, 9, EM_STEP, 0, &left, &err), &err); /* dropped meanwhile */
    assert_false(left || next->go);
    e->member = false; /* this member does not compute, so it has no memory to free */
    assert_ok(hsp_epoch_hand_over(e, 8, EM_STEP, 0, &left, &err), &err);
    assert_true(left && next->go && next->go_version == EM_STEP);
    assert_int_equal(e->phase, HSP_EPOCH_LEFT);
    em_end_world(&w);
}

static bool drops_next; /* drop the next epoch while this epoch frees its device memory */

__typeof__(hsp_epoch_device_leave) __real_hsp_epoch_device_leave, __wrap_hsp_epoch_device_leave;

void __wrap_hsp_epoch_device_leave(struct hsp_ex_epoch *e)
{
    if (drops_next) {
        assert_int_equal(pthread_mutex_trylock(&e->lock), 0);
        e->next = NULL;
        (void)pthread_mutex_unlock(&e->lock);
    }
    __real_hsp_epoch_device_leave(e);
}

/* Freeing device memory may take seconds. The epoch is not locked meanwhile, so the control thread,
 * which sends heartbeats, does not wait. */
static void an_epoch_leaves_its_device_without_the_lock(void **state)
{
    struct em_world w;
    struct hsp_err err = {0};
    bool left = true;
    (void)state;
    struct hsp_ex_epoch *e = make_two(&w), *next = e->next;
    e->member = false; /* this member does not compute, so it has no memory to free */
    drops_next = true;
    em_assert_refused(hsp_epoch_hand_over(e, 8, EM_STEP, 0, &left, &err), &err, HSP_ECANCELED,
                      "epoch 8 was dropped as it was to begin");
    drops_next = false;
    assert_false(left || next->go);
    em_end_world(&w);
}

HSP_TEST_FILE(epoch_hand_over_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_that_has_failed_hands_nothing_over),
        cmocka_unit_test(an_epoch_leaves_its_device_without_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
