/* Tests the tables of nodes that hspmdctl prints. */
#include "tests/lib/testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/cmd_node.h"
#include "daemon/ctl/command.h"

static char *node_text(const char *nodes, bool one)
{
    char *out = NULL;
    size_t n;
    struct hsp_ctl ctl = {
        .out = open_memstream(&out, &n), .arena = hsp_arena_new((size_t)1 << 20), .headers = true};
    cJSON *o = cJSON_Parse(nodes);
    assert_non_null(o);
    assert_true(hsp_node_view(&ctl, o, one));
    (void)fclose(ctl.out);
    cJSON_Delete(o);
    (void)hsp_arena_free(ctl.arena);
    return out;
}

#define DEVICE "\"kind\": \"cuda\", \"speed\": 1, \"memory_bytes\": 8589934592, \"job\": \"\""

/* Each device is shown with its fault and the cause of the fault, besides the reason for the state
 * of its node. */
static void nodes_say_what_is_wrong_with_devices(void **state)
{
    (void)state;
    char *t = node_text(
        "[{\"name\": \"n1\", \"state\": \"draining\", \"reason\": \"new disk\", \"devices\": ["
        "{\"index\": 0, \"up\": true, \"health\": \"fine\", \"reason\": \"\", " DEVICE "},"
        "{\"index\": 1, \"up\": true, \"health\": \"cordoned\", \"reason\": \"XID 74: NVLink "
        "error\", " DEVICE "},"
        "{\"index\": 2, \"up\": false, \"health\": \"lost\", \"reason\": \"XID 79: fallen off the "
        "bus\", " DEVICE "},"
        "{\"index\": 3, \"up\": false, \"health\": \"warned\", \"reason\": \"hot\", " DEVICE "}]}]",
        false);
    assert_non_null(strstr(t, "0            cuda"));
    assert_non_null(strstr(t, "1 (cordoned) cuda"));
    assert_non_null(strstr(t, "2 (lost)     cuda"));
    assert_non_null(strstr(t, "3 (down)     cuda"));
    assert_non_null(strstr(t, "new disk\n"));
    assert_non_null(strstr(t, "new disk; XID 74: NVLink error\n"));
    assert_non_null(strstr(t, "new disk; XID 79: fallen off the bus\n"));
    assert_null(strstr(t, "MODEL"));
    free(t);
}

/* Replaces each run of blanks by one blank. */
static void squeeze(char *s)
{
    char *to = s;
    for (const char *at = s; *at != '\0'; at++) {
        if (at[0] != ' ' || at[1] != ' ') {
            *to++ = *at;
        }
    }
    *to = '\0';
}

/* A node without known devices has a row, too: its name, and the time since which it has been
 * gone. */
static void a_node_that_has_gone_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *more, *row;
    } of[] = {{"\"state\": \"dead\", \"reason\": \"silent for 3000 ms\", \"gone_seconds\": 42.4",
               "\nn1 dead - - - - - gone for 42 s: silent for 3000 ms\n"},
              {"\"state\": \"left\", \"reason\": \"\", \"gone_seconds\": 700",
               "\nn1 left - - - - - gone for 12 min\n"},
              {"\"state\": \"left\", \"reason\": \"has not joined yet\"",
               "\nn1 left - - - - - has not joined yet\n"},
              {"\"state\": \"draining\", \"reason\": \"new disk\", \"gone_seconds\": 18000",
               "\nn1 draining - - - - - gone for 5 h: new disk\n"},
              {"\"state\": \"left\", \"reason\": \"fan\", \"gone_seconds\": 60, \"draining\": true",
               "\nn1 left - - - - - gone for 60 s: fan; drained, until undrain\n"},
              {"\"state\": \"drained\", \"reason\": \"fan\", \"draining\": true",
               "\nn1 drained - - - - - fan\n"},
              {"\"state\": \"dead\", \"reason\": \"x\", \"gone_seconds\": 345600",
               "\nn1 dead - - - - - gone for 4 days: x\n"},
              {"\"state\": \"live\", \"reason\": \"hot\", \"keepers\": [{\"index\": 0}]",
               "\nn1 live - replica-holder - - - hot\n"}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char doc[256];
        (void)snprintf(doc, sizeof doc, "[{\"name\": \"n1\", %s, \"devices\": []}]", of[i].more);
        char *t = node_text(doc, false);
        squeeze(t);
        if (strstr(t, of[i].row) == NULL) {
            fail_msg("\"%s\" is not in:\n%s", of[i].row, t);
        }
        free(t);
    }
}

/* A node is shown with whether it may hold copies of state, and with the command that allows it. */
static void a_node_says_whether_it_may_keep_copies(void **state)
{
    (void)state;
    static const char *const text[] = {"copies: not allowed; hspmdctl node allow n1 --holder\n",
                                       "copies: allowed, for 2 jobs at a time\n"};
    for (int holder = 0; holder < 2; holder++) {
        char doc[256];
        (void)snprintf(doc, sizeof doc,
                       "[{\"name\": \"n1\", \"state\": \"live\", \"devices\": [], "
                       "\"holder\": %s, \"keepers\": [{\"index\": 1}, {\"index\": 2}]}]",
                       holder == 0 ? "false" : "true");
        char *t = node_text(doc, true);
        assert_non_null(strstr(t, text[holder]));
        free(t);
        t = node_text(doc, false);
        assert_null(strstr(t, "copies:"));
        free(t);
    }
}

static void the_room_in_the_state_folder_is_shown(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        char doc[160];
        (void)snprintf(doc, sizeof doc, "[{\"name\": \"n1\", \"devices\": []%s}]",
                       known ? ", \"folder_free_bytes\": 3221225472" : "");
        char *t = node_text(doc, true);
        assert_true((strstr(t, "\nstate folder: 3.0 GiB free\n") != NULL) == (known == 1));
        assert_true((strstr(t, "state folder") != NULL) == (known == 1));
        free(t);
    }
}

static void who_is_no_member_is_found_by_its_address(void **state)
{
    (void)state;
    char *t = node_text("[{\"name\": \"x\", \"state\": \"foreign\", \"reason\": \"why\", "
                        "\"address\": \"10.0.0.7\", \"keeps\": [], \"devices\": []}]",
                        true);
    assert_non_null(strstr(t, "\nnot a member; it connects from 10.0.0.7\n"));
    free(t);
}

/* Commands take a word of digits as the number of a job, so a job whose name is all digits is shown
 * by its number. */
static void a_job_that_is_kept_is_shown_as_commands_take_it(void **state)
{
    (void)state;
    char *t =
        node_text("[{\"name\": \"x\", \"state\": \"foreign\", \"devices\": [], \"keeps\": ["
                  "{\"id\": 7, \"job\": \"17\"}, {\"id\": 8, \"job\": \"mist\"}, {\"id\": 9}]}]",
                  false);
    assert_non_null(strstr(t, " 7,mist,9 "));
    free(t);
}

static void nodes_stand_by_name(void **state)
{
    (void)state;
#define NODE(name) "{\"name\": \"" name "\", \"state\": \"dead\", \"devices\": []}"
    char *t = node_text("[" NODE("n10") ", " NODE("n9") ", " NODE("a") "]", false);
    const char *a = strstr(t, "\na "), *n9 = strstr(t, "\nn9 "), *n10 = strstr(t, "\nn10 ");
    assert_true(a != NULL && n9 != NULL && n10 != NULL && a < n9 && n9 < n10);
    free(t);
}

static void a_node_shows_its_gpus(void **state)
{
    (void)state;
    char *t = node_text(
        "[{\"name\": \"n1\", \"state\": \"live\", \"reason\": \"\", \"devices\": ["
        "{\"index\": 0, \"up\": true, \"health\": \"fine\", \"reason\": \"\", \"model\": \"NVIDIA "
        "H200\", "
        "\"uuid\": \"GPU-1\", \"compute_capability\": \"9.0\", \"near_processors\": "
        "\"0-7\", " DEVICE "},"
        "{\"index\": 1, \"up\": true, \"kind\": \"cpu\", \"speed\": 1, \"memory_bytes\": 1, "
        "\"job\": \"\", \"products\": {\"fp32\": {\"even\": 5e10, \"few\": 1.25e10, \"attention\": "
        "3e9}, "
        "\"bf16\": {\"even\": 4e10}}}],"
        "\"paths\": [{\"devices\": [0, 1], \"kind\": \"nvlink\"}, {\"devices\": [0, 2], \"kind\": "
        "\"system\"},"
        "{\"devices\": [2, 3], \"kind\": \"nvlink\", \"bytes_per_second\": 2147483648}, "
        "{\"devices\": [2], \"kind\": \"nvlink\"}]}]",
        true);
    assert_non_null(strstr(
        t, "uplink: not measured\nnvlink: 0-1 2-3 (2.0 GiB/s)\nsystem: 0-2\n\nDEVICE MODEL"));
    assert_non_null(strstr(t, "0      NVIDIA H200 9.0     0-7        GPU-1\n"));
    assert_non_null(strstr(t, "DEVICE GFLOP/S EVEN  FEW WIDE LONG ATTENTION\n"
                              "1      fp32      50 12.5    -    -         3\n"
                              "1      bf16      40    -    -    -         -\n"));
    free(t);
}

HSP_TEST_FILE(node_view_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_say_what_is_wrong_with_devices),
        cmocka_unit_test(a_node_that_has_gone_is_shown),
        cmocka_unit_test(a_node_says_whether_it_may_keep_copies),
        cmocka_unit_test(the_room_in_the_state_folder_is_shown),
        cmocka_unit_test(who_is_no_member_is_found_by_its_address),
        cmocka_unit_test(a_job_that_is_kept_is_shown_as_commands_take_it),
        cmocka_unit_test(nodes_stand_by_name),
        cmocka_unit_test(a_node_shows_its_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
