/* Tests both configuration files, hspmdd.yaml and hspmd-worker.yaml: the shipped file, mistakes,
 * layers, a reload. Each is a cmocka test whose *state is a struct ct_program. */
#ifndef HSP_CONFIGTESTS_H
#define HSP_CONFIGTESTS_H
#include "tests/lib/testlib.h"

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/text/layers.h"

struct ct_wrong {
    const char *text, *want; /* a file, a part of the message that refuses it */
};

/* A program's configuration. Among its keys are listen, log_level, and a time that a reload
 * applies. */
struct ct_program {
    const char *file;      /* as shipped, in the source tree */
    const char *prefix;    /* of its variables in the environment */
    const char *time;      /* that key, before log_level in the table */
    const char *was, *set; /* its default, and another value */
    const char *untouched; /* a line that stands for another default */
    const struct ct_wrong *wrong;
    size_t n_wrong;
    size_t size; /* of the struct that the functions fill */
    enum hsp_status (*load)(const struct hsp_layers *l, struct hsp_arena *arena, void *ret,
                            struct hsp_err *err);
    enum hsp_status (*parse)(const char *text, size_t len, const char *name,
                             struct hsp_arena *arena, void *ret, struct hsp_err *err);
    void (*print)(const void *c, struct hsp_buf *out);
    void (*example)(struct hsp_buf *out);
    const struct hsp_cfg_field *(*fields)(size_t *ret_n);
};

void ct_wrong_files_say_where_and_what(void **state);
void ct_the_shipped_file_is_the_generated_one(void **state);
void ct_layers_win_in_their_order_and_say_so(void **state);
void ct_wrong_settings_say_which(void **state);
void ct_a_reload_takes_what_may_change_and_lists_the_rest(void **state);

/* In an array of struct CMUnitTest; cmocka passes a program on and does not write to it. */
#define CT_TESTS(program)                                                               \
    cmocka_unit_test_prestate(ct_wrong_files_say_where_and_what, (program)),            \
        cmocka_unit_test_prestate(ct_the_shipped_file_is_the_generated_one, (program)), \
        cmocka_unit_test_prestate(ct_layers_win_in_their_order_and_say_so, (program)),  \
        cmocka_unit_test_prestate(ct_wrong_settings_say_which, (program)),              \
        cmocka_unit_test_prestate(ct_a_reload_takes_what_may_change_and_lists_the_rest, (program))

#endif
