/* Tests the rights to join and to command, by the proof of the connection. */
#include "daemon/app/dispatch.h"

#include <unistd.h>

#include "daemon/app/state/app_state.h"
#include "daemon/app/state/sessions.h"
#include "proto/base/size.h"
#include "tests/lib/testlib.h"

#define CONN  HSP_NET_MAX_CONNS /* slot 0 */
#define AGENT 4711u             /* uids: of the agents, */
#define OTHER 4712u             /* and of somebody */

static void what_a_connection_proves_decides(void **state)
{
    (void)state;
    const uid_t us = getuid();
    static struct hsp_caller client[1];
    const struct {
        const char *who;
        enum hsp_net_role role;
        uid_t uid;
        bool insecure, has_user, joins, commands;
    } table[] = {
        {"holder of worker.key", HSP_ROLE_WORKER, 0, false, true, true, false},
        {"holder of admin.key", HSP_ROLE_ADMIN, 0, false, true, false, true},
        {"root", HSP_ROLE_LOCAL, 0, false, true, true, true},
        {"the daemon's user", HSP_ROLE_LOCAL, us, false, true, true, true},
        {"the agents' user", HSP_ROLE_LOCAL, AGENT, false, true, true, false},
        {"the agents' user unknown", HSP_ROLE_LOCAL, AGENT, false, false, false, false},
        {"somebody", HSP_ROLE_LOCAL, OTHER, false, true, false, false},
        {"somebody, with it", HSP_ROLE_LOCAL, OTHER, true, true, false, false},
        {"by clear TCP", HSP_ROLE_OPEN, 0, false, true, false, false},
        {"by clear TCP, with it", HSP_ROLE_OPEN, 0, true, true, true, true},
        {"nobody", HSP_ROLE_NONE, 0, true, true, false, false},
    };
    for (size_t i = 0; i < HSP_ARRAY_LEN(table); i++) {
        struct hsp_app a = {.clients = client,
                            .n_clients = 1,
                            .insecure = table[i].insecure,
                            .has_worker_user = table[i].has_user,
                            .worker_uid = table[i].has_user ? AGENT : 0};
        const struct hsp_net_peer peer = {
            .name = table[i].who, .role = table[i].role, .uid = table[i].uid, .source = 1 + i};
        hsp_dispatch_open(&a, CONN, &peer);
        assert_int_equal(client[0].source, 1 + i);
        if (client[0].may_join != table[i].joins || client[0].may_command != table[i].commands) {
            fail_msg("%s: join %d, command %d", table[i].who, client[0].may_join,
                     client[0].may_command);
        }
    }
}

HSP_TEST_FILE(dispatch_test)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_connection_proves_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
