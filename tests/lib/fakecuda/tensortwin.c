#include "tests/lib/fakecuda/include/tensortwin.h"

struct hsp_twin_copies hsp_twin_copies[HSP_FAKE_MAX_THREADS];
bool hsp_twin_at_once;

void hsp_twin_copies_reset(bool at_once)
{
    hsp_twin_at_once = at_once;
    for (int i = 0; i < HSP_FAKE_MAX_THREADS; i++) {
        hsp_twin_copies[i].n = 0;
        hsp_twin_copies[i].n_groups = 0;
    }
}
