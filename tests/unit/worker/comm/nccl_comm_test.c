/* Runs the conformance suite over NCCL, but for the parts that its contract leaves out. */
#include "tests/unit/worker/comm/comm_suite.h"
#include "tests/unit/worker/comm/nccl_world.h"

static struct nw_process process[NW_RANKS];
static struct nw_epoch epoch;

static void open_nccl(uint32_t n, struct hsp_comm **ret)
{
    nw_fake()->reset(hsp_test_seed(), 0);
    nw_open(process, n, NULL);
    nw_epoch_init(&epoch, process, NULL, n);
    for (uint32_t set = 1; n <= 5 && set < 1u << n; set++) {
        uint32_t ranks[NW_RANKS], k = 0;
        for (uint32_t i = 0; i < n; i++) {
            if ((set >> i & 1) != 0) {
                ranks[k++] = i;
            }
        }
        nw_want(&epoch, ranks, k);
    }
    nw_prepare(&epoch);
    for (uint32_t k = 0; k < n; k++) {
        assert_ok(epoch.st[k], &epoch.err[k]);
        assert_non_null(epoch.comm[k]);
        assert_true(epoch.comm[k]->device);
        ret[k] = epoch.comm[k];
    }
}

static void done(void)
{
    for (uint32_t k = 0; k < epoch.n; k++) {
        epoch.comm[k] = NULL; /* the suite has closed it */
    }
    nw_epoch_close(&epoch);
    nw_close(process, epoch.n);
    nw_expect_clean();
}

HSP_TEST_FILE(nccl_comm_test)
{
    static const struct suite_transport t = {.name = "nccl",
                                             .lacks = SUITE_LACKS_TAGS | SUITE_LACKS_TOLD |
                                                      SUITE_LACKS_PARTING,
                                             .open = open_nccl,
                                             .done = done};
    return suite_run(&t);
}
