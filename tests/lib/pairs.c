#include "tests/lib/pairs.h"

#include <stdio.h>

#include "tests/lib/golden.h"
#include "tests/lib/testlib.h"

#define TABLE_MAX (4u << 20) /* bytes */
#define QUIET_MAX (1u << 20)

void hsp_pairs_begin(struct hsp_pairs *p, const char *head)
{
    *p = (struct hsp_pairs){.n = 0};
    hsp_buf_init(&p->table, TABLE_MAX);
    hsp_buf_init(&p->quiet, QUIET_MAX);
    hsp_buf_puts(&p->table, head);
}

static void end_state(struct hsp_pairs *p)
{
    if (p->n_states > 0) {
        hsp_buf_printf(&p->table, "  nothing: %s\n", hsp_buf_cstr(&p->quiet));
    }
    assert_false(p->quiet.failed);
    hsp_buf_reset(&p->quiet);
}

void hsp_pairs_state(struct hsp_pairs *p, const char *name)
{
    end_state(p);
    hsp_buf_printf(&p->table, "\n== %s\n", name);
    p->n_states++;
}

void hsp_pairs_add(struct hsp_pairs *p, const char *event, const char *variant,
                   const char *reaction)
{
    const char *between = variant[0] != '\0' ? " " : "";
    if (reaction[0] == '\0') {
        hsp_buf_printf(&p->quiet, "%s%s%s%s", p->quiet.len == 0 ? "" : "; ", event, between,
                       variant);
    } else {
        hsp_buf_printf(&p->table, "  %s%s%s ->%s\n", event, between, variant, reaction);
    }
    p->n++;
}

void hsp_pairs_end(struct hsp_pairs *p, const char *golden)
{
    end_state(p);
    (void)fprintf(stderr, "# %u states, %u pairs\n", p->n_states, p->n);
    hsp_golden_check(golden, &p->table);
    hsp_buf_fini(&p->table);
    hsp_buf_fini(&p->quiet);
}
